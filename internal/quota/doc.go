// Package quota limits the rates at which users use a broker (KIP-13, KIP-124, KIP-599): bytes
// produced and fetched, processing time of requests, and partitions created and deleted.
//
// Each user has one token bucket for each kind of quota. A bucket refills at the quota's rate. Its
// capacity is what the rate permits in the time Burst, over which Kafka measures rates by default
// (quota.window.num, quota.window.size.seconds). A request is charged to the bucket after it was
// handled. A bucket in debt throttles its user until it has refilled to 0.
//
// Kafka averages over windows instead of refilling a bucket. Both methods permit the same rate and
// the same burst after a pause, and throttle for the same time: the debt divided by the rate.
// Unlike windows, a bucket has no steps, which is why KIP-599 chose it too.
//
// The package is pure: the time is an argument. Package handler owns the Users and their lock.
//
// Invariants:
//   - A user who waits after each charge for as long as Charge returns uses at most rate * (time +
//     Burst) + the size of one request.
//   - Users contains at most usersMax users. Forgetting a user whose buckets are full has no
//     consequence, because a new bucket is full too.
package quota
