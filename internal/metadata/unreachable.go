package metadata

// ReachabilityReporter is a Store to which brokers report which other brokers they cannot reach.
type ReachabilityReporter interface {
	// ReportUnreachable publishes the text of a reachability.Report from the broker that uses the
	// store. It returns at once. It may be called before Run. A report remains valid until the next
	// one.
	ReportUnreachable(peers string)
}
