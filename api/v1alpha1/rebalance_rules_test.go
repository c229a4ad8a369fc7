package v1alpha1_test

import . "github.com/onsi/ginkgo/v2"

// rebalanceCreations are LogClusters that are rejected because of their fields for moving replicas.
func rebalanceCreations() []TableEntry {
	const cordoned = "cordoned must contain ids below brokers"
	const drain = "drain must contain ids below brokers, and not those of all brokers: to remove " +
		"brokers for good, lower brokers, which removes the highest ids"
	entry := func(spec, field, message string) TableEntry {
		return Entry("LogCluster "+spec, "LogCluster", "spec: "+spec, "spec."+field, message)
	}
	return []TableEntry{
		entry("{brokers: 2, drain: [2]}", "drain", drain),
		entry("{brokers: 2, drain: [0, 1]}", "drain", drain),
		entry("{brokers: 2, cordoned: [2]}", "cordoned", cordoned),
		entry("{rebalance: {rate: 1}}", "rebalance.rate", "write at least 1Ki bytes a second, such as "+
			"20Mi; leave it out for the rate of replication.catchUpRate"),
		entry("{rollout: {window: {start: '09:00', end: '09:00'}}}", "rollout.window",
			"start and end of the window must differ; leave the window out for any time"),
		entry("{rollout: {policy: Never}}", "rollout.policy",
			`Unsupported value: "Never": supported values: "Automatic", "OnApproval"`),
		entry("{rebalance: {window: {start: '09:00', end: '09:00'}}}", "rebalance.window",
			"start and end of the window must differ; leave the window out for any time"),
	}
}
