// Package balance plans moves of replicas and of preferred leadership that balance the brokers of a
// cluster. The operator executes the plan; see controllers/rebalance. The package is pure.
//
// The planner has goals in a fixed order (type Goal). The first three are hard: no move makes them
// worse, and a replica is never placed on a broker that is cordoned or draining, or that already
// holds the partition. The others are soft. Moves with Move.Anyway are an exception: they may break
// goals Racks and Capacity, to empty draining brokers on which replicas would otherwise remain. A
// plan contains them after all other moves.
//
// The state of a goal is a number: the sum of the amounts by which brokers are outside the goal's
// bounds. It is 0 if the goal is reached. The numbers in the order of the goals are the Potential
// of the cluster. The planner guarantees:
//  1. Each move lowers the Potential, compared goal by goal from the first. So a plan ends, and a
//     cluster whose goals are reached gets no moves.
//  2. After the moves of a plan, another plan is empty.
//  3. The plan depends only on the content of its input, not on the order of brokers or partitions.
//  4. A copy for the goal Disk lowers the number of this goal by at least half of the bytes that it
//     copies. Thus the planner does not copy a large partition for a small gain.
//
// The goals resemble those of Cruise Control. Unlike Cruise Control, the planner does not estimate
// CPU or network load: it uses bytes on disk and bytes per second of producers.
package balance
