package transaction

import (
	"maps"
	"regexp"
	"slices"
	"time"
)

// Description describes the state of a transactional id (DescribeTransactions, KIP-664).
type Description struct {
	ID         string
	Phase      Phase
	Producer   Producer
	Timeout    time.Duration
	Started    time.Time // start time of the last transaction; zero if there is none
	Changed    time.Time
	Partitions []Partition // partitions of an Ongoing or Prepare* transaction
	Unmarked   int         // number of partitions that have not acknowledged the marker
}

func (t *transaction) describe() Description {
	return Description{ID: t.id, Phase: t.phase, Producer: t.producer, Timeout: t.timeout,
		Started: t.started, Changed: t.changed, Partitions: t.partitions,
		Unmarked: len(t.unmarked)}
}

// Describe returns the description of a transactional id, or ErrNotFound.
func (s *State) Describe(id string) (Description, error) {
	t := s.byID[id]
	if t == nil {
		return Description{}, ErrNotFound
	}
	return t.describe(), nil
}

// Filter selects transactional ids (ListTransactions, KIP-664, KIP-994). An empty field selects all
// of them.
type Filter struct {
	Phases    []string // names of phases
	Producers []int64
	// OpenFor selects Ongoing and Prepare* transactions that were started at least this long ago. A
	// negative value selects all transactional ids.
	OpenFor time.Duration
	Pattern *regexp.Regexp // pattern that the whole transactional id must match
}

func (f *Filter) selects(now time.Time, t *transaction) bool {
	switch {
	case len(f.Phases) > 0 && !slices.Contains(f.Phases, t.phase.String()),
		len(f.Producers) > 0 && !slices.Contains(f.Producers, t.producer.ID),
		f.Pattern != nil && !f.Pattern.MatchString(t.id):
		return false
	case f.OpenFor >= 0:
		return t.phase.Open() && now.Sub(t.started) >= f.OpenFor
	}
	return true
}

// List returns the descriptions of the selected transactional ids, sorted by id.
func (s *State) List(now time.Time, f Filter) (all []Description) {
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		if t := s.byID[id]; f.selects(now, t) {
			all = append(all, t.describe())
		}
	}
	return all
}
