// Package quota limits the rates at which users use a broker (KIP-13, KIP-124, KIP-599): bytes
// produced and fetched, processing time of requests, and partitions created and deleted.
//
// Each user has one token bucket for each kind of quota. A bucket refills at the rate of the quota
// and holds what the rate permits in Burst, which is the time over which Kafka measures rates by
// default (quota.window.num, quota.window.size.seconds). The use of a request is charged to the
// bucket after the fact. A bucket in debt throttles its user until it has refilled to 0.
//
// Kafka averages over windows instead of refilling a bucket. Both permit the same rate, the same
// burst after a pause, and throttle for the same time: the debt divided by the rate. A bucket has
// no steps at the limits of windows, for which reason KIP-599 chose it too.
//
// The package is pure: the time comes in as an argument. Package handler owns the Users and their
// lock.
//
// Invariants:
//   - A user who waits after each charge for as long as Charge returns uses at most
//     rate * (time + Burst) + the size of one request.
//   - Users holds at most usersMax users. It forgets a user whose buckets are full without a
//     consequence: a new bucket is full too.
package quota
