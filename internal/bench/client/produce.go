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

// distinctBytes is how much of different records each producer makes before the clock starts; then
// they come round again. It is more than a codec's window.
const distinctBytes = 8 << 20

// bufferedBytes is what one producer may hold of records that are not acknowledged: then it waits.
// It takes a few of the largest batches.
const bufferedBytes = 2 * batchBytesMax

// Produce sends records until there are enough, the time is up, or ctx ends, waits for what is
// under way, and says how it went. Its error is only for runs that could not begin; records that
// failed are in the result.
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
	result.set(parts, lastOf(parts, begin).Sub(begin), processTime()-cpu)
	return result, nil
}

// producer is one client and the records it sends.
type producer struct {
	opts   ProduceOptions
	client *kgo.Client
	sent   []kgo.Record // keys and values, which come round
	count  int64        // how many this one sends
	index  int          // among the producers
	lock   sync.Mutex   // guards tally: the client's own goroutines acknowledge
	tally  *tally
}

func newProducer(opts ProduceOptions, index int) (*producer, error) {
	codec, _ := codecOf(opts.Codec) // both were checked
	acks, _ := acksOf(opts.Acks)
	how := []kgo.Opt{
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytes(int32(opts.BatchBytes)),
		kgo.ProducerLinger(opts.Linger), kgo.MaxBufferedBytes(bufferedBytes),
		kgo.RecordDeliveryTimeout(answerWait),
		kgo.DefaultProduceTopic(opts.Topic),
	}
	if opts.Acks != "all" {
		how = append(how, kgo.DisableIdempotentWrite()) // which needs acknowledgments of all
	}
	client, err := opts.connect(how...)
	if err != nil {
		return nil, err
	}
	p := &producer{opts: opts, client: client, index: index, tally: newTally()}
	p.count = opts.Records / int64(opts.Producers)
	if int64(index) < opts.Records%int64(opts.Producers) {
		p.count++
	}
	made := tickets.New(opts.Seed + uint64(index))
	for size := 0; size < distinctBytes && int64(len(p.sent)) < p.count; size += opts.RecordBytes {
		key, value, _ := made.Next(opts.RecordBytes)
		p.sent = append(p.sent, kgo.Record{Key: key, Value: value})
	}
	return p, nil
}

// run sends, and joins what was sent.
func (p *producer) run(ctx context.Context, begin time.Time) {
	ctx, cancel := context.WithDeadline(ctx, begin.Add(p.opts.Duration))
	defer cancel()
	for i := range p.count {
		due, ok := p.await(ctx, begin, i)
		if !ok {
			break
		}
		p.send(ctx, p.sent[i%int64(len(p.sent))], due)
	}
	// The end of ctx is the end of sending. What is under way has its own time to be acknowledged,
	// and fails after it.
	flushed, stop := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
	defer stop()
	if err := p.client.Flush(flushed); err != nil {
		if err := p.client.AbortBufferedRecords(context.WithoutCancel(ctx)); err != nil {
			p.lock.Lock()
			p.tally.note(err)
			p.lock.Unlock()
		}
	}
}

// await waits until the i-th record of this producer is due, and returns when that is; false once
// ctx has ended. Without a rate a record is due when its turn comes.
func (p *producer) await(ctx context.Context, begin time.Time, i int64) (time.Time, bool) {
	if p.opts.Rate == 0 {
		return time.Now(), ctx.Err() == nil
	}
	nth := float64(i)*float64(p.opts.Producers) + float64(p.index) // of the records of all
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

// send gives a record to the client, which blocks while its buffer is full. A record that it could
// not take because the run is over was never sent, and does not count.
func (p *producer) send(ctx context.Context, record kgo.Record, due time.Time) {
	record.Headers = []kgo.RecordHeader{{Key: sentHeader,
		Value: binary.BigEndian.AppendUint64(nil, uint64(due.UnixNano()))}}
	// The record has a context of its own: one that is under way is not given up with the run's.
	taken := context.WithoutCancel(ctx)
	p.client.Produce(taken, &record, func(r *kgo.Record, err error) { p.acknowledged(r, due, err) })
}

func (p *producer) acknowledged(r *kgo.Record, due time.Time, err error) {
	now := time.Now()
	p.lock.Lock()
	defer p.lock.Unlock()
	if err != nil {
		p.tally.failed++
		p.tally.note(err)
		return
	}
	p.tally.records++
	p.tally.bytes += int64(len(r.Key) + len(r.Value))
	p.tally.last = now
	if p.opts.Acks != "0" { // nothing is acknowledged, so there is no latency
		p.tally.latency.add(now.Sub(due))
	}
}

// Err is what the exit code of a run is made of.
func (r *Result) Err() error {
	if r.Failed > 0 {
		return fmt.Errorf("%d records were not acknowledged", r.Failed)
	}
	if r.Records == 0 {
		return errors.New("no records")
	}
	return nil
}
