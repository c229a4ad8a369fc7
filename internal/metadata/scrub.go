package metadata

import (
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Scrub configures how brokers check their data at rest.
type Scrub struct {
	Interval    time.Duration // time between two checks of the same data; 0 disables the scrub
	BytesRate   int64         // maximum rate in bytes per second
	VerifyReads v1alpha1.VerifyReads
}

// ScrubRequest is the request in the annotation heartwood.dev/scrub-now.
type ScrubRequest struct {
	Topic string `json:"topic,omitempty"` // name of the topic; empty for all topics
	Value string `json:"value,omitempty"` // value of the annotation; empty without a request
}

// ScrubReporter is a Store to which brokers report the state of their scrubs.
type ScrubReporter interface {
	// ReportScrub publishes the scrub state of the broker that uses the store. It returns at once. It
	// may be called before Run. A report remains valid until the next one.
	ReportScrub(scrub v1alpha1.BrokerScrub)
}

// resolveScrubRequest returns the request to a LogCluster's brokers. cluster may be nil.
func resolveScrubRequest(cluster *v1alpha1.LogCluster) (r ScrubRequest) {
	if cluster != nil {
		r.Topic, r.Value = cluster.ScrubNow()
	}
	return r
}

const (
	scrubIntervalDefault  = 7 * 24 * time.Hour
	scrubBytesRateDefault = 20 << 20
)

// ResolveScrub returns a LogCluster's settings for the scrub. cluster may be nil. Values out of
// range, which the API server rejects, count as not set.
func ResolveScrub(cluster *v1alpha1.LogCluster) Scrub {
	resolved := Scrub{Interval: scrubIntervalDefault, BytesRate: scrubBytesRateDefault,
		VerifyReads: v1alpha1.VerifyOnce}
	if cluster == nil || cluster.Spec.Scrub == nil {
		return resolved
	}
	spec := cluster.Spec.Scrub
	if interval, err := time.ParseDuration(spec.Interval); err == nil && interval >= time.Hour {
		resolved.Interval = interval
	}
	if spec.Interval == v1alpha1.ScrubNever {
		resolved.Interval = 0
	}
	if v := spec.VerifyReads; v == v1alpha1.VerifyAlways || v == v1alpha1.VerifyNever {
		resolved.VerifyReads = v
	}
	if spec.Rate != nil && spec.Rate.Value() > 0 {
		resolved.BytesRate = spec.Rate.Value()
	}
	return resolved
}
