package transaction

import (
	"slices"
	"time"
)

// Add is an AddPartitionsToTxn request for one transactional id. An AddOffsetsToTxn request is an
// Add for the group's partition of __consumer_offsets.
type Add struct {
	To         Token
	ID         string
	Producer   Producer
	Partitions []Partition
	// Verify means that the request only asks whether the transaction includes the partitions
	// (VerifyOnly in KIP-890).
	Verify bool
	// Version is the client's transaction version.
	Version    int16
	Connection uint64 // number of the connection, as in Init; 0 for a request from another broker
}

// Add adds partitions to the transaction, and begins a transaction if none is ongoing. If r.Verify
// is set, it changes nothing, and the answer lists the partitions that the transaction does not
// include.
func (s *State) Add(now time.Time, r Add) Output {
	if err := s.checkConnection(r.ID, r.Producer, r.Version, r.Connection); err != nil {
		return Output{Answers: []Answer{{To: r.To, Err: err}}}
	}
	return s.handle(now, r.ID, &r)
}

func (r *Add) token() Token { return r.To }

func (r *Add) decide(now time.Time, _ *Config, e *entry) decision {
	switch {
	case e == nil:
		return refuse(ErrInvalidMapping)
	case e.phase.prepared() && r.Producer == e.answered():
		return decision{wait: true}
	case r.Producer.ID != e.producer.ID:
		return refuse(ErrInvalidMapping)
	case r.Producer.Epoch != e.producer.Epoch:
		return refuse(ErrFenced)
	case r.Verify:
		return decision{result: Result{Absent: r.absent(e)}}
	case e.phase == Ongoing && len(r.absent(e)) == 0:
		return decision{}
	}
	after := e.extended(now, r.Partitions, r.Version)
	return decision{store: &after}
}

// absent returns the partitions that the Ongoing transaction does not include.
func (r *Add) absent(e *entry) []Partition {
	if e.phase != Ongoing {
		return r.Partitions
	}
	return slices.DeleteFunc(slices.Clone(r.Partitions), e.includes)
}

// checkConnection rejects a request of a client below EpochBumpVersion if a newer connection with
// the same producer id and epoch exists. In these versions, successive transactions have the same
// epoch. So a request that was delayed on a broken connection could otherwise be applied to the
// next transaction.
func (s *State) checkConnection(id string, producer Producer, version int16,
	connection uint64) error {
	t := s.byID[id]
	if t == nil || connection == 0 || t.producer != producer {
		return nil
	}
	if connection < t.connection && version < EpochBumpVersion {
		return ErrConcurrent
	}
	t.connection = max(t.connection, connection)
	return nil
}
