package transaction

// partition is a reference implementation of a partition's log. It contains each producer's values,
// and the markers that end transactions. It follows the rules of internal/logstore/producer and the
// rules for verification (KIP-890).
type partition struct {
	producers map[int64]*writer
	values    []*value
}

// writer is the state of a producer id in a partition.
type writer struct {
	epoch       int16
	sequence    int // sequence number of the next value
	coordinator int
	open        []*value
	markers     int
}

// value is a value that a client has written to a partition.
type value struct {
	txn     *txn
	decided bool
	visible bool
}

func newPartition() *partition { return &partition{producers: map[int64]*writer{}} }

func (p *partition) writer(id int64) *writer {
	if p.producers[id] == nil {
		p.producers[id] = &writer{epoch: -1}
	}
	return p.producers[id]
}

// needsVerification reports whether a batch of the producer would begin a transaction.
func (p *partition) needsVerification(producer Producer) bool {
	w := p.writer(producer.ID)
	return len(w.open) == 0 || w.epoch != producer.Epoch
}

// append adds a value. It returns false if the epoch is old, or if the sequence number is not the
// next one.
func (p *partition) append(t *txn, producer Producer, sequence int) bool {
	w := p.writer(producer.ID)
	switch {
	case producer.Epoch < w.epoch, producer.Epoch > w.epoch && (sequence != 0 || len(w.open) > 0),
		producer.Epoch == w.epoch && sequence != w.sequence:
		return false
	}
	w.epoch, w.sequence = producer.Epoch, sequence+1
	v := &value{txn: t}
	w.open = append(w.open, v)
	p.values = append(p.values, v)
	return true
}

// mark writes a marker, and reports whether the partition acknowledges the marker.
func (p *partition) mark(m *Marker, coordinator int) bool {
	w := p.writer(m.Producer.ID)
	epoch := m.Producer.Epoch
	switch {
	case m.Version >= EpochBumpVersion && epoch == w.epoch && len(w.open) == 0:
		return true // the marker was repeated
	case epoch < w.epoch:
		return true // the log already contains a later epoch
	case m.Version >= EpochBumpVersion && epoch == w.epoch, coordinator < w.coordinator:
		return false
	}
	if epoch > w.epoch {
		w.sequence = 0
	}
	w.epoch, w.coordinator = epoch, coordinator
	w.markers++
	for _, v := range w.open {
		v.decided, v.visible = true, m.Commit
	}
	w.open = nil
	return true
}
