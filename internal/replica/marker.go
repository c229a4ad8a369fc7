package replica

import (
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// Marker is a transaction marker for one partition.
type Marker struct {
	ID  PartitionID
	End logstore.EndTxn
}

// AppendMarkers appends each transaction marker to its partition's log. PendingProduce.Wait then
// waits until each marker is below the high watermark, as for a produce request with acks=-1,
// because only then is the transaction's outcome final in this partition.
//
// If the log already contains a marker, the marker is acknowledged without a second append
// (logstore.Log.AppendControl), so a coordinator may repeat its markers. Besides the errors of a
// produce request, the results can contain logstore.ErrInvalidProducerEpoch and
// logstore.ErrCoordinatorFenced.
//
// Unlike the records of AppendIn, a marker does not depend on state that the caller has read from
// the log, so it may be appended in any leader epoch.
func (s *Set) AppendMarkers(markers []Marker) *PendingProduce {
	pending := &PendingProduce{set: s, results: make([]ProduceResult, len(markers))}
	for i, m := range markers {
		result := &pending.results[i]
		result.ID = m.ID
		p, r, err := s.appendMarker(m, result)
		if err != nil {
			result.Err = err
			continue
		}
		pending.await(p, r, result)
	}
	return pending
}

func (s *Set) appendMarker(m Marker, result *ProduceResult) (*partition, *role, error) {
	p, r, err := s.leader(m.ID, -1)
	if err != nil {
		return nil, nil, err
	}
	if r.leaderState.isrSize() < r.minISR {
		return nil, nil, ErrNotEnoughReplicas
	}
	result.Appended, err = p.log.AppendControl(m.End, time.Now())
	if errors.Is(err, logstore.ErrClosed) || errors.Is(err, logstore.ErrFollows) {
		return nil, nil, closedError(p, r)
	}
	if err == nil {
		s.appended(p, r)
	}
	return p, r, err
}
