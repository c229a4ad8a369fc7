package client

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transaction is a producer's open transaction. The zero value means that no transaction is open.
type transaction struct {
	began   time.Time
	records int64
}

// transactionalID returns a producer's transactional id. It contains the process id, so that two
// runs do not fence each other's producers.
func transactionalID(topic string, index int) string {
	return fmt.Sprintf("heartwood-bench-%s-%d-%d", topic, os.Getpid(), index)
}

// begin counts a record for the open transaction, and begins a transaction if none is open. It does
// nothing if the producers use no transactions. It returns false if the producer cannot continue.
func (p *producer) begin() bool {
	if !p.opts.transactional() {
		return true
	}
	if p.open.records == 0 {
		if err := p.client.BeginTransaction(); err != nil {
			p.fail(fmt.Errorf("begin transaction: %w", err), 0)
			return false
		}
		p.open.began = time.Now()
	}
	p.open.records++
	return true
}

// isDue reports whether the open transaction must be committed now.
func (p *producer) isDue() bool {
	switch {
	case p.open.records == 0:
		return false
	case p.opts.TransactionRecords > 0 && p.open.records >= p.opts.TransactionRecords:
		return true
	}
	return p.opts.Transaction > 0 && time.Since(p.open.began) >= p.opts.Transaction
}

// commit commits the open transaction, if there is one. The latency of a commit starts when the
// last record was passed to the client, so it includes the acknowledgments of the last records. If
// the commit fails, commit counts the transaction's records as failed and returns false.
func (p *producer) commit(ctx context.Context) bool {
	if p.open.records == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	began, records := time.Now(), p.open.records
	p.open = transaction{}
	err := p.client.Flush(ctx)
	if err == nil {
		err = p.client.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		p.fail(fmt.Errorf("commit transaction: %w", err), records)
		return false
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	p.tally.transactions++
	p.tally.commits.add(time.Since(began))
	p.tally.last = time.Now()
	return true
}

// fail counts a transaction's records as failed, even if they were acknowledged before.
func (p *producer) fail(err error, records int64) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.tally.addError(err)
	p.tally.failed += max(records, 1)
}
