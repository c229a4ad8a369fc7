package replica

// These messages report that a replica loses records on purpose. They are constants because the
// simulation in test/sim recognizes the events by them; it has no other view of a replica's
// decision.
const (
	MessageDiscardDiverged = "discarding diverged log: " +
		"truncation cannot restore records removed by cleaning"
	MessageDiscardCopy        = "discarding incomplete copy"
	MessageDiscardIncarnation = "discarding log of another replica incarnation"
	MessageRestartAtLogStart  = "restarting log at the leader's log start"
	MessageTruncateBelowHW    = "truncating below the high watermark: the leader lacks these records"
)
