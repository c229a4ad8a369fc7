package transaction

import "time"

// Init is an InitProducerId request with a transactional id.
type Init struct {
	To       Token
	ID       string
	Timeout  time.Duration
	Expected Producer // the producer's own id and epoch (KIP-360); ID is NoProducerID if unknown
	// Connection is a number of the client's connection that is higher than those of all earlier
	// connections to this broker; 0: unknown.
	Connection uint64
}

// Init gives a producer its id and epoch. It aborts an Ongoing transaction of the transactional id
// first. Its answer contains the Producer.
func (s *State) Init(now time.Time, r Init) Output {
	return s.handle(now, r.ID, &r)
}

func (r *Init) token() Token { return r.To }

// decide implements request. An Init with a producer id that is not the current one is refused
// before it can abort a transaction: otherwise an earlier instance of the producer would abort the
// transactions of the later one.
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

// retries reports whether the request repeats an earlier Init, whose answer was the current
// producer. If the earlier Init also changed the producer id, the repetition has the previous
// producer id.
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

// decideOngoing begins to abort the transaction. If the producer continues with its own epoch, the
// answer contains the epoch of the abort. Any other producer gets the epoch after that.
func (r *Init) decideOngoing(now time.Time, c *Config, e *entry) decision {
	if !r.matches(e) {
		return refuse(ErrFenced) // the sender cannot know the epoch in which the transaction began
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

// decideNext gives the producer the next epoch, or a new producer id after the last epoch.
func (r *Init) decideNext(now time.Time, c *Config, e *entry) decision {
	next, last := e.producer, int16(noEpoch)
	if r.Expected.ID != NoProducerID {
		last = r.Expected.Epoch
	}
	switch {
	case r.retries(e) && e.producer.Epoch <= lastUsableEpoch:
		// the answer of the first request is lost
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
