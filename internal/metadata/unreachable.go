package metadata

// ReachabilityReporter is a Store to which brokers report which other brokers they do not reach.
type ReachabilityReporter interface {
	// ReportUnreachable publishes the text of a reachability.Report of the broker that uses the
	// store. It returns at once. It may be called before Run, and the last report remains valid until
	// the next one.
	ReportUnreachable(peers string)
}
