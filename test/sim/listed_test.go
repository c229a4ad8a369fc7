package sim

import (
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator"
	txn "heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// watchListed checks many times per second of simulated time that no transaction hangs.
func (e *exactlyOnce) watchListed() {
	for sleep(e.w.ctx, 100*time.Millisecond) == nil {
		for _, name := range append([]string{coordinator.OffsetsTopic}, outputTopics...) {
			e.checkListed(name)
		}
	}
}

// checkListed checks that the coordinator knows each transaction that is open in a leader's log.
// This must hold because the coordinator adds the partition to the transaction before the first
// batch is appended, and completes the transaction after the marker. The check after the run would
// not find all hanging transactions, because the producer's next transaction ends them. After an
// accepted loss of records, the coordinator may have forgotten a transaction.
func (e *exactlyOnce) checkListed(name string) {
	l, c := e.leader(name), e.leader(metadata.TransactionsTopic)
	if l == nil || c == nil {
		return
	}
	log, err := l.set.Leader(e.w.meta.topicNamed(name).partitionID(), -1)
	if err != nil || log.LeaderEpoch() != e.w.meta.recorded(name).LeaderEpoch {
		return // the leader does not know of its election yet
	}
	before := log.Producers().Transactions()
	if len(before) == 0 {
		return
	}
	listed, err := c.transactions.List(e.w.ctx, txn.Filter{OpenFor: 0})
	if err != nil || !e.coordinates(c) {
		return
	}
	for _, open := range before {
		isListed := slices.ContainsFunc(listed, func(d txn.Description) bool {
			return d.Producer.ID == open.ProducerID &&
				slices.Contains(d.Partitions, txn.Partition{Topic: name})
		})
		stillOpen := slices.ContainsFunc(log.Producers().Transactions(),
			func(t logstore.Transaction) bool {
				return t.ProducerID == open.ProducerID && t.First == open.First
			})
		if !isListed && stillOpen && e.leader(name) == l && !e.lostRecords() {
			e.w.fail("%s: the coordinator does not know the open transaction %+v; it knows %+v",
				name, open, listed)
		}
	}
}

// coordinates reports whether a broker leads the partition of the transactional ids in the recorded
// leader epoch, and has loaded these ids.
func (e *exactlyOnce) coordinates(c *liveBroker) bool {
	recorded := e.w.meta.recorded(metadata.TransactionsTopic)
	log, err := c.set.Leader(e.w.meta.topicNamed(metadata.TransactionsTopic).partitionID(), -1)
	if err != nil || recorded.Leader != c.id || log.LeaderEpoch() != recorded.LeaderEpoch {
		return false
	}
	_, err = c.transactions.Describe(e.w.ctx, "unknown")
	return errors.Is(err, txn.ErrNotFound)
}
