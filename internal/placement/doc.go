// Package placement assigns replicas to brokers and elects leaders. The operator and `heartwood
// dev` use the same code, so both make the same decisions.
//
// Everything is a pure function of its arguments: the same arguments, with the brokers in any
// order, give the same result. Nothing is moved for balance: an assignment stays until a caller
// requests another one.
//
// Assign guarantees, in this order:
//  1. The replicas of a partition are on different brokers, and on as many racks as there are, up
//     to the number of replicas.
//  2. Without racks, the brokers' shares of one call differ by one replica at most.
//  3. The remainder of an uneven division is assigned to the brokers with the fewest replicas.
//  4. The preferred leader is the replica that leads least in this call, so that leaders are spread
//     as replicas are.
//
// Fit changes existing assignments when the number of replicas changes or brokers are removed. It
// moves as few replicas as possible.
//
// Decide elects the leader of one partition and decides what depends on it: ISR, reassignment and
// leader epoch (decide.go). ChangeISR checks the ISR changes that a leader proposes (partition.go).
// decide_model_test.go checks these guarantees against a model of logs and brokers:
//  1. The leader has every record that was acknowledged by all in-sync replicas, unless no in-sync
//     replica that has it returned with its complete log, or the topic or a user accepted the loss.
//  2. A leader epoch has one leader, with one broker epoch. The leader epoch grows by one whenever
//     that changes, also to no leader, and never otherwise.
//  3. The set of replicas that have the records is never lost: the ISR does not become empty.
package placement
