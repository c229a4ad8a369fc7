package transaction

import "time"

// Init is an InitProducerId request with a transactional id.
type Init struct {
	To      Token
	ID      string
	Timeout time.Duration
	// Expected is the client's current producer id and epoch (KIP-360); the id is NoProducerID if
	// unknown.
	Expected Producer
	// Connection is the number of the client's connection. It is higher than the numbers of all
	// earlier connections to this broker; 0: unknown.
	Connection uint64
}

// Init gives a producer its id and epoch. If the transactional id has an Ongoing transaction, it is
// aborted first. The answer contains the Producer.
func (s *State) Init(now time.Time, r Init) Output {
	return s.handle(now, r.ID, &r)
}

func (r *Init) token() Token { return r.To }

// decide implements request. It rejects an Init with an outdated producer id before the Init can
// abort a transaction. Otherwise an earlier instance of the producer could abort the later
// instance's transactions.
func (r *Init) decide(now time.Time, c *Config, e *entry) decision {
	switch {
	case r.Timeout <= 0 || r.Timeout > c.TimeoutMax:
		return refuse(ErrInvalidTimeout)
	case e == nil:
		return r.decideNew(now, c)
	case e.phase.prepared():
		return decision{wait: true}
	case !r.matches(e) && !r.retries(e):
		return refuse(ErrFenced)
	case e.phase == Ongoing:
		return r.decideOngoing(now, c, e)
	}
	return r.decideNext(now, c, e)
}

// matches reports whether the request may continue with the current producer.
func (r *Init) matches(e *entry) bool {
	return r.Expected.ID == NoProducerID || r.Expected == e.producer
}

// retries reports whether the request repeats an earlier Init that was answered with the current
// producer. If the earlier Init also changed the producer id, the repeated request contains the
// previous id.
func (r *Init) retries(e *entry) bool {
	id := r.Expected.ID
	return id != NoProducerID && e.lastEpoch != noEpoch && r.Expected.Epoch == e.lastEpoch &&
		(id == e.producer.ID || id == e.previousID && e.producer.Epoch == 0)
}

func (r *Init) decideNew(now time.Time, c *Config) decision {
	id, err := c.ProducerID()
	if err != nil {
		return refuse(err)
	}
	e := newEntry(now, id, r.Timeout)
	return decision{store: &e, result: Result{Producer: e.producer}}
}

// decideOngoing begins to abort the transaction. If the producer continues with its own epoch, it
// receives the epoch of the abort. Any other producer receives the epoch after that one.
func (r *Init) decideOngoing(now time.Time, c *Config, e *entry) decision {
	if !r.matches(e) {
		return refuse(ErrFenced) // the sender cannot know the transaction's epoch
	}
	aborted, err := e.fenced(now, c)
	if err != nil {
		return refuse(err)
	}
	if r.Expected.ID != NoProducerID {
		aborted.lastEpoch = e.producer.Epoch
	}
	return decision{store: &aborted, wait: true, reason: fenced}
}

// decideNext gives the producer the next epoch or, after the last epoch, a new producer id.
func (r *Init) decideNext(now time.Time, c *Config, e *entry) decision {
	next, last := e.producer, int16(noEpoch)
	if r.Expected.ID != NoProducerID {
		last = r.Expected.Epoch
	}
	switch {
	case r.retries(e) && e.producer.Epoch <= lastUsableEpoch:
		// The client has not received the answer to its first request.
	case e.exhausted():
		id, err := c.ProducerID()
		if err != nil {
			return refuse(err)
		}
		next = Producer{id, 0}
	default:
		next.Epoch++
	}
	after := e.initialized(now, next, last, r.Timeout)
	return decision{store: &after, result: Result{Producer: next}}
}
