package topic

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/keyed"
)

// Pace limits the status writes of Topics that are not settled. The zero value selects the
// defaults.
type Pace struct {
	// After is the time after which the status of a Topic that is not settled is written; default 2 s.
	// Most new Topics, and most failovers, are settled before this time.
	After time.Duration
	// Again is the minimum time between two such writes in which only numbers and problems have
	// changed; default 10 s.
	Again time.Duration
}

func (p Pace) withDefaults() Pace {
	return Pace{After: cmp.Or(p.After, 2*time.Second), Again: cmp.Or(p.Again, 10*time.Second)}
}

// unsettled is the progress of a Topic that is not settled.
type unsettled struct {
	since   time.Time // time of the first observation
	written time.Time // time of the last write since then; zero if there was none
}

// unsettledTopics stores the time at which each Topic was first observed to be not settled. These
// times are lost when the operator restarts, which delays the next write by at most Pace.After.
type unsettledTopics struct {
	topics keyed.Map[unsettled]
}

// wait returns the time after which a changed status must be written; 0 means now. A settled status
// is written at once.
func (u *unsettledTopics) wait(key types.NamespacedName, before, after v1alpha1.TopicStatus,
	settled bool, pace Pace, now time.Time) time.Duration {
	if settled {
		u.topics.Delete(key)
		return 0
	}
	last, known := u.topics.Get(key)
	if !known {
		last = unsettled{since: now}
		u.topics.Set(key, last)
	}
	due := last.since.Add(pace.After)
	if again := last.written.Add(pace.Again); !last.written.IsZero() && sameReasons(before, after) {
		due = again
	}
	return max(due.Sub(now), 0)
}

// record stores the time of a status write.
func (u *unsettledTopics) record(key types.NamespacedName, now time.Time) {
	if last, known := u.topics.Get(key); known {
		last.written = now
		u.topics.Set(key, last)
	}
}

func (u *unsettledTopics) forget(key types.NamespacedName) { u.topics.Delete(key) }

// settled reports whether a status is final until something happens to the Topic. It is final if
// all partitions serve and are replicated, or if the Topic is refused.
func settled(status v1alpha1.TopicStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Reason == v1alpha1.ReasonReady {
		replicated := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReplicated)
		return replicated != nil && (replicated.Reason == v1alpha1.ReasonInSync ||
			replicated.Reason == v1alpha1.ReasonInvalidReassignment)
	}
	return ready != nil && ready.Reason != v1alpha1.ReasonPartitionsNotReady
}

// sameReasons reports whether the conditions of two statuses have the same reasons.
func sameReasons(a, b v1alpha1.TopicStatus) bool {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReplicated} {
		x, y := meta.FindStatusCondition(a.Conditions, kind),
			meta.FindStatusCondition(b.Conditions, kind)
		if x == nil || y == nil || x.Reason != y.Reason {
			return false
		}
	}
	return true
}
