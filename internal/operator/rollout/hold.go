package rollout

// Hold is what the restart of a broker that serves must wait for, besides other brokers and
// replicas.
type Hold int

const (
	// NoHold means that the restart must wait for nothing else.
	NoHold Hold = iota
	// Approval means that a person has not approved the latest template.
	Approval
	// OutsideWindow means that brokers are not restarted at this time of the day.
	OutsideWindow
	// VersionSkew means that the versions of other brokers do not work together with the operator or
	// with the format level.
	VersionSkew
)

// Terms are what a LogCluster requires of the restarts that a new template causes.
type Terms struct {
	Approved bool // the latest template is approved, or needs no approval
	Inside   bool // the present time is in the window, or there is none
}

// Hold returns what the restart of a broker must wait for. A restart that was requested for itself
// waits for nothing: the request is the approval, and chooses the time.
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
