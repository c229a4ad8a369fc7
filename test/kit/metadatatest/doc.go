// Package metadatatest tests the contract of metadata stores, like Kubernetes' pkg/storage/testing
// tests the stores of the API server. Run tests one implementation; internal/metadata/kube, local
// and remote call it. Every Store gives a broker the following guarantees:
//
//   - images: each broker receives images in order and from one goroutine, the last one always.
//     An image satisfies the invariants of package metadata and is never changed.
//   - registration: an image shows self in the broker epoch of this registration. Epochs rise over
//     a stop, a kill and a reopened store, and self never leads by an election of an earlier epoch.
//   - ISR: a change is a compare-and-swap on the leader, its epoch and the ISR. It is settled once
//     and before ChangeISR returns. A conflict changes nothing and does not affect other changes.
//     A change that takes longer than its context has an unknown outcome.
//   - serving: a report is complete and can be repeated. After a report of a log ahead of the
//     metadata, the partition is led in a higher leader epoch.
//   - losses: a broker that returns without some of its logs is in their ISRs no more when it
//     registers, unless it is the last member. It does not register before this is recorded.
//   - shutdown: a broker in controlled shutdown is Leaving and leads nothing that another in-sync
//     replica can lead. The next Run clears it.
//   - topics, alter, moves, users: a successful change appears in an image; a change that fails or
//     only validates has no effect. The errors are those of the interfaces of package metadata.
//     Passwords and quotas change one by one, and the passwords of the operator are refused.
//   - retention: the records of a deleted topic are retained if its policy is Retain. A later topic
//     of its name has another id and continues with its brokers and leader epochs.
//   - removal: RecordRemoved ignores partitions that are not being removed. Records that were given
//     up are listed until every broker has recorded their removal.
//   - abilities: which optional interfaces a store has, and what they do. A table names the
//     implementations.
//   - failures: a store that is opened again has the same topics, and concurrent callers do not
//     lose changes.
package metadatatest
