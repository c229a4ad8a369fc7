package rollout

// Hold is the reason why the restart of a serving broker must wait, other than the state of other
// brokers and of replicas.
type Hold int

const (
	// NoHold means that there is no further reason to wait.
	NoHold Hold = iota
	// Approval means that no user has approved the latest template.
	Approval
	// OutsideWindow means that brokers are not restarted at this time of day.
	OutsideWindow
	// VersionSkew means that other brokers' versions are incompatible with the operator or with the
	// format level.
	VersionSkew
)

// Terms are a LogCluster's conditions for restarts that are caused by a new template.
type Terms struct {
	Approved bool // true if the latest template is approved, or needs no approval
	Inside   bool // true if the current time is in the window, or there is no window
}

// Hold returns the reason why a broker's restart must wait. A restart that a user has requested for
// this broker does not wait, because the request is the approval and determines the time.
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
