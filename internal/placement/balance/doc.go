// Package balance plans moves of replicas and of preferred leadership that balance a cluster's
// brokers. The operator executes the plan; see controllers/rebalance. The package is pure.
//
// The planner has goals in a fixed order (type Goal). The first three goals are hard: no move makes
// them worse. A replica is never placed on a broker that is cordoned or draining, or that already
// has a replica of the partition. The other goals are soft. Moves with Move.Anyway are an
// exception: to empty draining brokers on which replicas would otherwise remain, they may violate
// the goals Racks and Capacity. They follow all other moves in a plan.
//
// The state of a goal is a number: the sum of the amounts by which brokers are outside the goal's
// bounds. It is 0 if the goal is reached. These numbers, in the order of the goals, form the
// cluster's Potential. The planner guarantees:
//  1. Each move lowers the Potential, compared goal by goal from the first. So a plan ends, and a
//     cluster whose goals are reached gets no moves.
//  2. After the moves of a plan, a further plan is empty.
//  3. The plan depends on the brokers and partitions in its input, and not on their order.
//  4. A copy for the goal Disk lowers this goal's number by at least half of the copied bytes. So
//     the planner does not copy a large partition for a small gain.
//
// The goals resemble those of Cruise Control. Unlike Cruise Control, the planner does not estimate
// CPU or network load: it uses the bytes on disk and the bytes per second that producers send.
package balance
