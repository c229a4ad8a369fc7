package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// ErrNoOpenTransaction means that there is no open transaction to abort.
var ErrNoOpenTransaction = httpport.ErrNoOpenTransaction

// Transactions returns the transactional ids that these brokers coordinate, and the open
// transactions in the partitions that they lead. It fails with coordinator.ErrLoading while a
// partition of __transaction_state is loading.
func (all Brokers) Transactions(ctx context.Context, now time.Time,
	filter httpport.TransactionFilter) (report.Transactions, error) {
	answer := report.Transactions{TransactionalIDs: []report.TransactionalID{},
		Open: []report.OpenTransaction{}, Reporting: []int32{}, Brokers: []report.BrokerHost{}}
	image := all.image()
	if image == nil {
		return answer, ErrStarting
	}
	answer.Brokers = httpport.HostsOf(image)
	answer.TimeoutMaxSeconds = transactionTimeoutMax(image).Seconds()
	selected := transaction.Filter{Phases: filter.States, OpenFor: -1}
	if filter.OlderThan > 0 {
		selected.OpenFor = filter.OlderThan
	}
	for _, b := range all {
		answer.Reporting = append(answer.Reporting, b.opts.NodeID)
		described, err := b.transactions.List(ctx, selected)
		if err != nil {
			return answer, fmt.Errorf("list transactions of broker %d: %w", b.opts.NodeID, err)
		}
		for i := range described {
			answer.TransactionalIDs = append(answer.TransactionalIDs,
				transactionalID(b.opts.NodeID, &described[i]))
		}
		answer.Open = append(answer.Open, b.openTransactions(now, filter.OlderThan)...)
	}
	answer.Sort()
	return answer, nil
}

const (
	// identifyAge is the minimum age of an open transaction whose transactional id is looked up for a
	// report. Most transactions end earlier, and looking up many ids takes some milliseconds.
	identifyAge = 10 * time.Second
	// identifyTimeout limits how long a report waits for the coordinators.
	identifyTimeout = time.Second
)

// identify sets the transactional ids of the transactions in rows, as far as these brokers
// coordinate them and the coordinators have loaded. All other transactions have only a producer id.
func (all Brokers) identify(now time.Time, rows []report.Partition) {
	old := func(row report.Partition) bool {
		return row.OldestTransaction != nil &&
			unixSeconds(now)-row.OldestTransaction.Since >= identifyAge.Seconds()
	}
	if !slices.ContainsFunc(rows, old) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), identifyTimeout)
	defer cancel()
	var known report.Transactions
	for _, b := range all {
		described, _ := b.transactions.List(ctx, transaction.Filter{Phases: report.OpenStates,
			OpenFor: -1}) // on an error, the transactions get no transactional id
		for i := range described {
			known.TransactionalIDs = append(known.TransactionalIDs,
				transactionalID(b.opts.NodeID, &described[i]))
		}
	}
	known.Identify(rows)
}

// transactionTimeoutMax returns the longest transaction timeout that a producer may request.
func transactionTimeoutMax(image *metadata.Image) time.Duration {
	return transaction.Config{TimeoutMax: image.Transactions.TimeoutMax}.WithDefaults().TimeoutMax
}

func transactionalID(coordinator int32,
	description *transaction.Description) report.TransactionalID {
	row := report.TransactionalID{TransactionalID: description.ID, Coordinator: coordinator,
		State: description.Phase.String(), ProducerID: description.Producer.ID,
		Epoch:          description.Producer.Epoch,
		TimeoutSeconds: description.Timeout.Seconds(), Changed: unixSeconds(description.Changed),
		Partitions: make([]report.TopicPartition, 0, len(description.Partitions)),
		Unmarked:   description.Unmarked}
	if !description.Started.IsZero() {
		row.Since = new(unixSeconds(description.Started))
		if description.Phase == transaction.Ongoing {
			row.Until = new(unixSeconds(description.Started.Add(description.Timeout)))
		}
	}
	for _, p := range description.Partitions {
		row.Partitions = append(row.Partitions,
			report.TopicPartition{Topic: p.Topic, Partition: p.Index})
	}
	return row
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// openTransactions returns the transactions that have been open for at least minAge, in the
// partitions that this broker leads.
func (b *Broker) openTransactions(now time.Time, minAge time.Duration) (
	all []report.OpenTransaction) {
	for _, state := range b.replicas.States() {
		if !state.Leader || state.Log == nil {
			continue
		}
		if count, _ := state.Log.OpenTransactions(); count == 0 {
			continue // avoids locking the log
		}
		for _, open := range state.Log.Producers().Transactions() {
			if minAge > 0 && now.Sub(open.Since) < minAge {
				continue
			}
			all = append(all, report.OpenTransaction{Broker: b.opts.NodeID,
				TopicPartition: report.TopicPartition{Topic: state.ID.Topic,
					Partition: state.ID.Index},
				Transaction: b.transactionRow(state.ID, open)})
		}
	}
	return all
}

func (b *Broker) transactionRow(partitionID replica.PartitionID,
	open logstore.Transaction) report.Transaction {
	return report.Transaction{ProducerID: open.ProducerID, Epoch: open.Epoch,
		FirstOffset: open.First, Since: unixSeconds(open.Since),
		Hanging: slices.Contains(b.hanging.FirstOffsets(partitionID), open.First)}
}

// lateMargin is added to the longest transaction timeout of producers. A transaction that has been
// open for longer than the sum is late (KIP-664), because its coordinator should have aborted it by
// then.
const lateMargin = 5 * time.Minute

// lateAfter returns the age at which an open transaction is late.
func (b *Broker) lateAfter() time.Duration { return transactionTimeoutMax(b.image()) + lateMargin }

// lateTransactions returns the number of late transactions in a partition. ok is false if this
// broker does not lead the partition, or if the partition has no open transaction.
func (b *Broker) lateTransactions(state replica.State, now time.Time) (late int, ok bool) {
	if !state.Leader || state.Log == nil {
		return 0, false
	}
	open, oldest := state.Log.OpenTransactions()
	limit := b.lateAfter()
	if open == 0 || now.Sub(oldest.Since) < limit {
		return 0, open > 0
	}
	for _, open := range state.Log.Producers().Transactions() {
		if now.Sub(open.Since) >= limit {
			late++
		}
	}
	return late, true
}

// AbortTransaction aborts the ongoing transaction of a transactional id, and fences its producer.
// It fails with coordinator.ErrNotCoordinator if none of these brokers coordinates the id, with
// transaction.ErrNotFound if the id does not exist, or with ErrNoOpenTransaction.
func (all Brokers) AbortTransaction(ctx context.Context, id string) (report.Aborted, error) {
	err := ErrStarting
	for _, b := range all {
		err = b.transactions.Abort(ctx, id)
		if !errors.Is(err, coordinator.ErrNotCoordinator) {
			break
		}
	}
	if errors.Is(err, transaction.ErrInvalidState) {
		err = ErrNoOpenTransaction
	}
	if err != nil {
		return report.Aborted{}, fmt.Errorf("abort transaction of %q: %w", id, err)
	}
	return report.Aborted{TransactionalID: id}, nil
}

// AbortOpen aborts the open transaction that begins at firstOffset, only in this partition, like
// `kafka-transactions abort`. It is used for transactions that no coordinator knows. It fails with
// replica.ErrNotLeader if none of these brokers leads the partition.
func (all Brokers) AbortOpen(ctx context.Context, key report.TopicPartition,
	firstOffset int64) (report.Aborted, error) {
	err := ErrStarting
	for _, b := range all {
		err = b.abortOpen(ctx, replica.PartitionID{Topic: key.Topic, Index: key.Partition}, -1,
			func(p logstore.ProducerInfo) bool { return p.TxnFirst == firstOffset })
		if !errors.Is(err, replica.ErrNotLeader) && !errors.Is(err, replica.ErrUnknownPartition) {
			break
		}
	}
	if err != nil {
		return report.Aborted{}, fmt.Errorf("abort transaction at offset %d of %s-%d: %w",
			firstOffset, key.Topic, key.Partition, err)
	}
	return report.Aborted{Partitions: []report.TopicPartition{key}}, nil
}

// abortOpen aborts the open transaction that satisfies matches, in a partition that this broker
// leads. leaderEpoch is the required leader epoch, or -1 for any.
func (b *Broker) abortOpen(ctx context.Context, id replica.PartitionID, leaderEpoch int32,
	matches func(logstore.ProducerInfo) bool) error {
	log, err := b.replicas.Leader(id, leaderEpoch)
	if err != nil {
		return err
	}
	for _, p := range log.Producers().All() {
		if !matches(p) {
			continue
		}
		return b.writeMarkers(ctx, []coordinator.PartitionMarker{{Partition: id,
			Producer:         transaction.Producer{ID: p.ID, Epoch: p.Epoch},
			CoordinatorEpoch: max(p.CoordinatorEpoch, 0)}})[0]
	}
	return ErrNoOpenTransaction
}
