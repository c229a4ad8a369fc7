package transaction

import "time"

// End is an EndTxn request.
type End struct {
	To         Token
	ID         string
	Producer   Producer
	Commit     bool
	Version    int16  // transaction version of the client
	Connection uint64 // number of the connection, as in Init
}

// End commits or aborts the transaction. Its answer contains the Producer for the next transaction.
func (s *State) End(now time.Time, r End) Output {
	if err := s.checkConnection(r.ID, r.Producer, r.Version, r.Connection); err != nil {
		return Output{Answers: []Answer{{To: r.To, Err: err}}}
	}
	return s.handle(now, r.ID, &r)
}

func (r *End) token() Token { return r.To }

func (r *End) decide(now time.Time, c *Config, e *entry) decision {
	switch {
	case e == nil:
		return refuse(ErrInvalidMapping)
	case r.Version >= EpochBumpVersion:
		return r.decideBump(now, c, e)
	case r.Producer.ID != e.producer.ID:
		return refuse(ErrInvalidMapping)
	case r.Producer.Epoch != e.producer.Epoch:
		return refuse(ErrFenced)
	case e.phase == Ongoing:
		return r.end(now, c, e)
	case e.phase == Empty || e.phase.commits() != r.Commit:
		return refuse(ErrInvalidState)
	}
	return r.repeat(e)
}

// decideBump decides on an EndTxn request of transaction version 2. The end of a transaction bumps
// the epoch, so the request's epoch distinguishes a repeated request from a request to end the next
// transaction.
func (r *End) decideBump(now time.Time, c *Config, e *entry) decision {
	switch {
	case r.repeats(e):
		return r.decideRepeated(e)
	case e.phase.prepared() && r.Producer == e.answered():
		return decision{wait: true} // this request ends the next transaction, which has no partition yet
	case r.Producer.ID != e.producer.ID:
		return refuse(ErrInvalidMapping)
	case e.phase.prepared() || r.Producer.Epoch != e.producer.Epoch:
		return refuse(ErrFenced)
	case e.phase == Ongoing || !r.Commit:
		return r.end(now, c, e)
	}
	return refuse(ErrInvalidState) // a commit without a transaction
}

// repeats reports whether the request has the epoch from before the end of the transaction, and is
// therefore a retry of the request that ended the transaction. Below EpochBumpVersion, the end of a
// transaction does not bump the epoch. In these versions, the preceding epoch belongs to another
// instance of the producer, which must not receive the current epoch.
func (r *End) repeats(e *entry) bool {
	switch {
	case e.phase == Empty || e.phase == Ongoing || e.version < EpochBumpVersion,
		e.lastEpoch != noEpoch && r.Producer.Epoch != e.lastEpoch:
		return false
	case r.Producer.ID == e.producer.ID:
		return r.Producer.Epoch+1 == e.producer.Epoch
	default: // the end of the transaction also changed the producer id
		return r.Producer == Producer{e.previousID, lastUsableEpoch} && e.producer.Epoch == 0
	}
}

// decideRepeated decides on a repeated request. If the entry has no lastEpoch, the epoch was bumped
// by the coordinator's own abort. In that case a repeated commit is rejected, so that its sender
// does not continue as if the commit had succeeded (KAFKA-20785).
func (r *End) decideRepeated(e *entry) decision {
	switch {
	case e.phase.commits() == r.Commit:
		return r.repeat(e)
	case r.Commit && e.lastEpoch == noEpoch:
		return refuse(ErrFenced)
	}
	return refuse(ErrInvalidState)
}

// repeat answers a repeated request once the transaction is complete.
func (r *End) repeat(e *entry) decision {
	if e.phase.prepared() {
		return decision{wait: true}
	}
	return decision{result: Result{Producer: e.producer}}
}

// end decides the transaction's outcome.
func (r *End) end(now time.Time, c *Config, e *entry) decision {
	phase := PrepareAbort
	if r.Commit {
		phase = PrepareCommit
	}
	bump := r.Version >= EpochBumpVersion
	ended, err := e.prepared(now, phase, bump).withNextID(c, bump && e.needsNextID(r.Version))
	if err != nil {
		return refuse(err)
	}
	ended.version = r.Version
	return decision{store: &ended, result: Result{Producer: ended.answered()}}
}
