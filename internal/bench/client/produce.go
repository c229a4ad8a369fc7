package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/bench/tickets"
)

// distinctBytes is the total size of the distinct records that each producer generates before the
// measurement and then sends repeatedly. It exceeds the window of each of the client's codecs, so
// that no codec finds a record again.
const distinctBytes = 8 << 20

// bufferedBytes is the limit on the size of a producer's unacknowledged records; at the limit the
// producer blocks. Two batches of the largest size fit.
const bufferedBytes = 2 * batchBytesMax

// Produce sends records until it has sent opts.Records, opts.Duration has passed or ctx ends. Then
// it waits for outstanding acknowledgments. It returns an error only if the run could not start.
// Records that failed are counted in the result.
func Produce(ctx context.Context, opts ProduceOptions) (*Result, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	partitions := opts.Partitions
	if !opts.Create {
		partitions = 0
	}
	if err := opts.ensure(ctx, partitions); err != nil {
		return nil, err
	}
	var producers []*producer
	defer func() {
		for _, p := range producers {
			p.client.Close()
		}
	}()
	for i := range opts.Producers {
		p, err := newProducer(opts, i)
		if err != nil {
			return nil, err
		}
		producers = append(producers, p)
	}
	result := &Result{Way: "produce", Topic: opts.Topic, Clients: opts.Producers}
	var running sync.WaitGroup
	begin, cpu := time.Now(), processTime()
	for _, p := range producers {
		running.Go(func() { p.run(ctx, begin) })
	}
	running.Wait()
	parts := make([]*tally, len(producers))
	for i, p := range producers {
		parts[i] = p.tally
	}
	result.set(parts, lastEvent(parts, begin).Sub(begin), processTime()-cpu)
	return result, nil
}

// producer is a client with the records that it sends.
type producer struct {
	opts   ProduceOptions
	client *kgo.Client
	sent   []kgo.Record // the distinct records, which are sent repeatedly
	count  int64        // records to send
	index  int          // index of this producer among all producers
	lock   sync.Mutex   // guards tally: the client's goroutines call acknowledged
	tally  *tally
	open   transaction // only run uses it
}

func newProducer(opts ProduceOptions, index int) (*producer, error) {
	codec, _ := parseCodec(opts.Codec) // Produce has validated the options
	acks, _ := parseAcks(opts.Acks)
	clientOpts := []kgo.Opt{
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytes(int32(opts.BatchBytes)),
		kgo.ProducerLinger(opts.Linger), kgo.MaxBufferedBytes(bufferedBytes),
		kgo.RecordDeliveryTimeout(answerTimeout),
		kgo.DefaultProduceTopic(opts.Topic),
	}
	if opts.Acks != "all" {
		// An idempotent producer requires acks=all.
		clientOpts = append(clientOpts, kgo.DisableIdempotentWrite())
	}
	if opts.transactional() {
		clientOpts = append(clientOpts, kgo.TransactionalID(transactionalID(opts.Topic, index)))
	}
	client, err := opts.connect(clientOpts...)
	if err != nil {
		return nil, err
	}
	p := &producer{opts: opts, client: client, index: index, tally: newTally()}
	p.count = opts.Records / int64(opts.Producers)
	if int64(index) < opts.Records%int64(opts.Producers) {
		p.count++
	}
	generator := tickets.New(opts.Seed + uint64(index))
	for size := 0; size < distinctBytes && int64(len(p.sent)) < p.count; size += opts.RecordBytes {
		key, value, _ := generator.Next(opts.RecordBytes)
		p.sent = append(p.sent, kgo.Record{Key: key, Value: value})
	}
	return p, nil
}

// run sends all records and waits for their acknowledgments.
func (p *producer) run(ctx context.Context, begin time.Time) {
	ctx, cancel := context.WithDeadline(ctx, begin.Add(p.opts.Duration))
	defer cancel()
	for i := range p.count {
		due, ok := p.await(ctx, begin, i)
		if !ok {
			break
		}
		if !p.begin() {
			break
		}
		p.send(ctx, p.sent[i%int64(len(p.sent))], due)
		if p.isDue() && !p.commit(ctx) {
			break
		}
	}
	p.commit(ctx)
	// When ctx ends, no more records are sent. Outstanding records have a separate timeout.
	flushed, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer stop()
	if err := p.client.Flush(flushed); err != nil {
		if err := p.client.AbortBufferedRecords(context.WithoutCancel(ctx)); err != nil {
			p.lock.Lock()
			p.tally.addError(err)
			p.lock.Unlock()
		}
	}
}

// await waits until record i of this producer is due, and returns the time at which it was due. It
// returns false if ctx ends or the record is due after the end of the run. Without a rate a record
// is due when it is sent.
func (p *producer) await(ctx context.Context, begin time.Time, i int64) (time.Time, bool) {
	if p.opts.Rate == 0 {
		return time.Now(), ctx.Err() == nil
	}
	// the record's index among the records of all producers
	nth := float64(i)*float64(p.opts.Producers) + float64(p.index)
	due := begin.Add(time.Duration(nth / float64(p.opts.Rate) * float64(time.Second)))
	if !due.Before(begin.Add(p.opts.Duration)) {
		return due, false
	}
	wait := time.Until(due)
	if wait <= 0 {
		return due, ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return due, ctx.Err() == nil
	case <-ctx.Done():
		return due, false
	}
}

// send passes a record to the client, which blocks while its buffer is full.
func (p *producer) send(ctx context.Context, record kgo.Record, due time.Time) {
	record.Headers = []kgo.RecordHeader{{Key: dueHeader,
		Value: binary.BigEndian.AppendUint64(nil, uint64(due.UnixNano()))}}
	// The end of the run must not cancel outstanding records.
	recordCtx := context.WithoutCancel(ctx)
	p.client.Produce(recordCtx, &record,
		func(r *kgo.Record, err error) { p.acknowledged(r, due, err) })
}

func (p *producer) acknowledged(r *kgo.Record, due time.Time, err error) {
	now := time.Now()
	p.lock.Lock()
	defer p.lock.Unlock()
	if err != nil {
		p.tally.failed++
		p.tally.addError(err)
		return
	}
	p.tally.records++
	p.opts.count()
	p.tally.bytes += int64(len(r.Key) + len(r.Value))
	p.tally.last = now
	if p.opts.Acks != "0" { // with acks=0 there are no acknowledgments to measure
		p.tally.latency.add(now.Sub(due))
	}
}

// Err returns an error if sending any record failed, or if no record was measured.
func (r *Result) Err() error {
	if r.Failed > 0 {
		return fmt.Errorf("%d records were not acknowledged", r.Failed)
	}
	if r.Records == 0 {
		return errors.New("no records were measured")
	}
	return nil
}
