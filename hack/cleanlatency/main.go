package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	var o options
	flag.StringVar(&o.broker, "broker", "127.0.0.1:9092", "HOST:PORT of a broker")
	flag.StringVar(&o.topic, "topic", "", "topic to send to")
	flag.IntVar(&o.keys, "keys", 1000, "number of different keys")
	flag.IntVar(&o.size, "size", 1000, "size of a record's value in bytes")
	flag.IntVar(&o.rate, "rate", 1000,
		"records per second; 0: as fast as possible, with latencies that include the time in the\n"+
			"client's buffer")
	flag.IntVar(&o.records, "records", 0,
		"number of records to send; required unless a command is given as arguments: then the run\n"+
			"ends when the command ends")
	flag.Parse()
	o.command = flag.Args()
	if err := measure(o); err != nil {
		fmt.Fprintln(os.Stderr, "cleanlatency:", err)
		os.Exit(1)
	}
}

// measure runs the measurement and prints its result. An interrupt ends it with an error.
func measure(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	measured, err := run(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(measured)
}

// options contains the values of the flags.
type options struct {
	broker, topic             string
	keys, size, rate, records int
	command                   []string
}

// result contains the measured latencies in milliseconds.
type result struct {
	Records int     `json:"records"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	Max     float64 `json:"max_ms"`
}

func run(ctx context.Context, o options) (result, error) {
	if o.topic == "" || o.keys < 1 || o.size < 1 || o.rate < 0 ||
		(len(o.command) == 0) == (o.records == 0) || o.rate == 0 && o.records == 0 {
		return result{}, errors.New(
			"need -topic, and either -records or a command; a command also needs -rate")
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.broker), kgo.DefaultProduceTopic(o.topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(20_000), kgo.RecordDeliveryTimeout(time.Minute),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	// The first record's latency is not measured, because it includes the requests for metadata and
	// the connection.
	if err := client.ProduceSync(ctx,
		&kgo.Record{Key: []byte("first"), Value: []byte("x")}).FirstErr(); err != nil {
		return result{}, fmt.Errorf("produce the first record: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if len(o.command) > 0 {
		command := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
		if err := command.Start(); err != nil {
			return result{}, err
		}
		go func() { cancel(errors.Join(errDone, command.Wait())) }()
	}
	return (&sender{options: o, client: client}).send(ctx)
}

// errDone is the cause of the context's end after the command has completed.
var errDone = errors.New("the command has completed")

// sender sends records and stores each record's latency. Acknowledgements arrive on the client's
// goroutines.
type sender struct {
	options
	client *kgo.Client

	mu   sync.Mutex
	took []time.Duration
	err  error // first error of any record
}

// send sends records until the command has completed or all records were sent. Then it waits for
// all acknowledgements.
func (s *sender) send(ctx context.Context) (result, error) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	value := make([]byte, s.size)
	for i := range value {
		value[i] = byte('a' + random.IntN(26))
	}
	began := time.Now()
	for i := 0; ctx.Err() == nil && (s.records == 0 || i < s.records); i++ {
		due := time.Now()
		if s.rate > 0 {
			due = began.Add(time.Duration(i) * time.Second / time.Duration(s.rate))
			time.Sleep(time.Until(due))
		}
		// With the background context, records that are in flight when the command completes are still
		// acknowledged and measured.
		s.client.Produce(context.Background(),
			&kgo.Record{Key: fmt.Appendf(nil, "key-%012d", random.IntN(s.keys)), Value: value},
			func(_ *kgo.Record, err error) {
				s.acked(time.Since(due), err)
			})
	}
	cause := context.Cause(ctx)
	if err := s.client.Flush(context.Background()); err != nil {
		return result{}, err
	}
	if s.err != nil {
		return result{}, s.err
	}
	if cause != nil && !errors.Is(cause, errDone) {
		return result{}, cause
	}
	var failed *exec.ExitError
	if errors.As(cause, &failed) {
		return result{}, fmt.Errorf("%s: %w", s.command[0], failed)
	}
	return s.result(time.Since(began)), nil
}

func (s *sender) acked(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("produce: %w", err)
	}
	s.took = append(s.took, took)
}

func (s *sender) result(over time.Duration) result {
	slices.Sort(s.took)
	ratio := func(share float64) float64 {
		if len(s.took) == 0 {
			return 0
		}
		return float64(s.took[min(len(s.took)-1,
			int(share*float64(len(s.took))))].Microseconds()) / 1000
	}
	return result{Records: len(s.took), Seconds: over.Seconds(), P50: ratio(0.5), P99: ratio(0.99),
		P999: ratio(0.999), Max: ratio(1)}
}
