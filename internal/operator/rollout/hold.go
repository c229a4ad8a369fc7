package rollout

// Hold is the reason why the restart of a serving broker must wait, besides other brokers and
// replicas.
type Hold int

const (
	// NoHold means that the restart must wait for nothing else.
	NoHold Hold = iota
	// Approval means that no user has approved the latest template.
	Approval
	// OutsideWindow means that brokers are not restarted at this time of the day.
	OutsideWindow
	// VersionSkew means that the versions of other brokers do not work together with the operator or
	// with the format level.
	VersionSkew
)

// Terms are the requirements of a LogCluster for the restarts that a new template causes.
type Terms struct {
	Approved bool // the latest template is approved, or needs no approval
	Inside   bool // the present time is in the window, or there is none
}

// Hold returns the reason why the restart of a broker must wait. A restart that was requested for
// this broker need not wait: the request is the approval, and chooses the time.
func (t Terms) Hold(requested bool) Hold {
	switch {
	case requested:
		return NoHold
	case !t.Approved:
		return Approval
	case !t.Inside:
		return OutsideWindow
	}
	return NoHold
}
