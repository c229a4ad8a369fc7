// Package placement assigns replicas to brokers and elects leaders. The operator and `heartwood
// dev` use the same code, so they make the same decisions.
//
// All functions are pure: the same arguments, with the brokers in any order, produce the same
// result. The package never moves replicas to balance brokers: an assignment remains until a caller
// requests another one.
//
// Assign guarantees, in this order:
//  1. The replicas of a partition are on different brokers, and on as many different racks as
//     possible.
//  2. Without racks, the numbers of replicas that one call assigns to each broker differ by at most
//     one.
//  3. If these numbers differ, the brokers with the smallest load get one replica more.
//  4. The preferred leader of a partition is the broker that is the preferred leader of the fewest
//     partitions of this call, so leaders are balanced too.
//
// Fit changes existing assignments when the number of replicas changes or brokers are removed. It
// moves as few replicas as possible.
//
// Decide elects the leader of one partition and decides ISR, replicas and leader epoch (decide.go).
// ChangeISR checks an ISR change that a leader proposes, and LoseLog removes a replica that has
// lost its log from the ISR (partition.go). They guarantee the following, which
// decide_model_test.go checks against simulated brokers and logs:
//  1. A new leader has every record that was acknowledged with acks=all. Unclean elections are the
//     exception: no in-sync replica has returned with its complete log, or the topic or a user has
//     accepted the loss of records.
//  2. Each leader epoch has at most one leader, with one broker epoch. The leader epoch grows if
//     and only if the leader or its broker epoch changes, or the partition loses its leader.
//  3. After the first election, the ISR is never empty, so it always identifies a replica that has
//     the records, or the last one that had them.
package placement
