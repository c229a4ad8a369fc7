package v1alpha1

import "time"

// Window is a time span on every day, in UTC. It can contain midnight.
//
// +kubebuilder:validation:XValidation:rule="self.start != self.end",message="start and end of the window must differ; leave the window out for any time"
type Window struct {
	// Start is the beginning of the window, such as "22:00".
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start"`
	// End is the end of the window, such as "05:30".
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	End string `json:"end"`
}

// Contains reports whether a time is in the window. until is the remaining time until this changes.
// For a nil window, Contains returns true and 0. The same applies to a window that cannot be
// parsed; the API server rejects such a window.
func (w *Window) Contains(now time.Time) (inside bool, until time.Duration) {
	if w == nil {
		return true, 0
	}
	start, err1 := time.Parse("15:04", w.Start)
	end, err2 := time.Parse("15:04", w.End)
	if err1 != nil || err2 != nil || w.Start == w.End {
		return true, 0
	}
	const day = 24 * time.Hour
	now = now.UTC()
	clock := now.Sub(now.Truncate(day))
	left := func(to time.Time) time.Duration {
		next := time.Duration(to.Hour())*time.Hour + time.Duration(to.Minute())*time.Minute
		if next <= clock {
			next += day
		}
		return next - clock
	}
	toStart, toEnd := left(start), left(end)
	return toEnd < toStart, min(toStart, toEnd)
}
