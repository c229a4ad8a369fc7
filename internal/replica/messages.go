package replica

// These messages report that a replica removes records intentionally. They are constants because
// the simulation in test/sim recognizes the events by their messages; it cannot observe a replica's
// decision in any other way.
const (
	MessageDiscardDiverged = "discarding diverged log: " +
		"truncation cannot restore records removed by cleaning"
	MessageDiscardCopy        = "discarding incomplete copy of a leader's log: copying it again"
	MessageDiscardIncarnation = "discarding log of another replica incarnation: copying the leader's log"
	MessageDiscardLost        = "discarding log that has lost records: copying the leader's log"
	MessageRestartAtLogStart  = "restarting log at the leader's log start"
	MessageTruncateBelowHW    = "truncating below the high watermark: the leader lacks these records"
)
