package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// server serves the HTTP API and stores an account for each topic.
type server struct {
	// ctx is the context of the process, because a stream continues after its request.
	ctx       context.Context
	bootstrap []string
	gaps      *gaps
	latencies *latencies

	mu       sync.Mutex
	producer *kgo.Client
	prober   *kgo.Client // producer with a manual partitioner
	accounts map[string]*account
}

// account is the state of one topic.
type account struct {
	book   *ledger.Ledger
	loads  uint64     // number of loads so far; makes the values of each load different
	stop   func()     // stops the running stream; nil if no stream is running
	stream chan int64 // number of sent records, when the stream has ended
	group  *group     // consumer; nil if the client has joined no group
	copier *copier    // nil if the topic is not being copied
}

// flushTimeout limits the time for which the end of a stream waits for acknowledgements.
const flushTimeout = 50 * time.Second

// Stats is the response of every successful call.
type Stats struct {
	Acknowledged int `json:"acknowledged"` // number of acknowledged records since the pod started
	Keys         int `json:"keys"`         // number of distinct keys of these records
	// Held is the number of records in the topic; only in the response to /check.
	Held int `json:"held"`
	// Gap is the longest time, in milliseconds, for which a partition was unavailable for writes since
	// the start of the stream or the last mark. Gaps contains the longest time of each partition.
	// Began contains the start of each partition's longest gap, in milliseconds after the mark.
	Gap   int64           `json:"gap"`
	Gaps  map[int32]int64 `json:"gaps"`
	Began map[int32]int64 `json:"began"`
	// Measured is the number of the streams' records that were acknowledged since the same time. P50
	// and P99 are percentiles of their latency in milliseconds, from the Produce call to the
	// acknowledgement.
	Measured int   `json:"measured"`
	P50      int64 `json:"p50"`
	P99      int64 `json:"p99"`

	// Latencies contains the time in milliseconds until a record was acknowledged, by partition;
	// only in the response to /probe.
	Latencies map[int32]int64 `json:"latencies"`
	// Reassigning is the number of partitions that are being reassigned; only in the response to
	// /reassigning.
	Reassigning int `json:"reassigning"`
	// Sources is the number of batches that each broker sent, by broker; only in the response to
	// /nearest.
	Sources map[int32]int `json:"sources"`
	// Consumed is the number of distinct records that the group has consumed; only in the responses
	// to /group and /leave.
	Consumed int `json:"consumed"`
	// Duplicates is the number of records that the group has consumed more than once; only in the
	// responses to /group and /leave.
	Duplicates int `json:"duplicates"`

	// The following fields are only in the responses to /copying and /endCopy.
	//
	// Coordinator is the broker that coordinates a transactional id of the copy.
	Coordinator int32 `json:"coordinator"`
	// Behind is the number of input records that are not yet copied.
	Behind int64 `json:"behind"`
	// Committed and Aborted are the numbers of committed and aborted transactions.
	Committed int `json:"committed"`
	Aborted   int `json:"aborted"`
	// CommitGap is the longest time between two commits, in milliseconds.
	CommitGap int64 `json:"commitGap"`
}

// call handles a request for one topic. It sets the fields of the response that are specific to
// this kind of request.
type call func(*http.Request, *account, *Stats) error

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for route, call := range map[string]call{
		"POST /produce": s.produce, "POST /stream": s.stream, "POST /stop": s.stop,
		"POST /reopen": s.reopen, "POST /mark": s.mark, "POST /probe": s.probe,
		"GET /check":     s.check,
		"GET /stats":     func(*http.Request, *account, *Stats) error { return nil },
		"POST /reassign": s.reassign, "GET /reassigning": s.reassigning, "POST /elect": s.elect,
		"POST /configs": s.configs,
		"GET /nearest":  s.nearest,
		"POST /join":    s.join, "GET /group": s.consumed, "POST /leave": s.leave,
		"POST /copy": s.startCopy, "GET /copying": s.copying, "POST /endCopy": s.endCopy,
	} {
		mux.HandleFunc(route, s.serve(call))
	}
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// serve responds with the topic's stats or an error. It also logs the error, because the API
// server's proxy does not always forward it.
func (s *server) serve(call call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		topic := r.FormValue("topic")
		account, response := s.account(topic), Stats{}
		if err := call(r, account, &response); err != nil {
			log.Printf("%s: %v", r.URL, err)
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		s.mu.Lock()
		streams := account.stop != nil
		s.mu.Unlock()
		response.Acknowledged, response.Keys = account.book.Count(), account.book.Keys()
		response.Gaps, response.Began = s.gaps.longest(topic, streams)
		response.Measured, response.P50, response.P99 = s.latencies.measured(topic)
		for _, gap := range response.Gaps {
			response.Gap = max(response.Gap, gap)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(response)
	}
}

func (s *server) account(topic string) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts[topic] == nil {
		s.accounts[topic] = &account{book: ledger.New()}
	}
	return s.accounts[topic]
}

// load returns the load that the parameters of a request describe.
func (s *server) load(r *http.Request, a *account) (traffic.Updates, error) {
	load := traffic.Updates{Topic: r.FormValue("topic")}
	for name, field := range map[string]*int{"keys": &load.Keys, "rounds": &load.Rounds,
		"deleteEvery": &load.DeleteEvery, "perSecond": &load.PerSecond} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		number, err := strconv.Atoi(text)
		if err != nil {
			return load, fmt.Errorf("parameter %s: %w", name, err)
		}
		*field = number
	}
	if load.Topic == "" || load.Keys < 1 {
		return load, fmt.Errorf("the parameters topic and keys are required, got %q and %d",
			load.Topic, load.Keys)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.loads++
	load.Seed = a.loads
	return load, nil
}

func (s *server) produce(r *http.Request, a *account, _ *Stats) error {
	load, err := s.load(r, a)
	if err != nil {
		return err
	}
	return traffic.Produce(r.Context(), s.producing(), a.book, load)
}

func (s *server) stream(r *http.Request, a *account, _ *Stats) error {
	load, err := s.load(r, a)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.stop != nil {
		return fmt.Errorf("topic %s already has a stream", load.Topic)
	}
	s.gaps.begin(load.Topic)
	s.latencies.mark(load.Topic)
	ctx, cancel := context.WithCancel(s.ctx)
	a.stop, a.stream = cancel, make(chan int64, 1)
	go func(producer *kgo.Client,
		done chan<- int64) {
		done <- traffic.Stream(ctx, producer, a.book, load)
	}(s.producer, a.stream)
	return nil
}

func (s *server) stop(r *http.Request, a *account, _ *Stats) error {
	s.mu.Lock()
	stop, stream := a.stop, a.stream
	a.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return fmt.Errorf("topic %s has no stream", r.FormValue("topic"))
	}
	stop()
	<-stream
	ctx, cancel := context.WithTimeout(r.Context(), flushTimeout)
	defer cancel()
	if err := s.producing().Flush(ctx); err != nil {
		// Abort the records that wait for a topic without leaders, because they would fail the next
		// steps.
		return errors.Join(err, s.producing().AbortBufferedRecords(context.Background()))
	}
	return nil
}

// mark resets the longest gaps and the latencies of a running stream.
func (s *server) mark(r *http.Request, _ *account, _ *Stats) error {
	s.gaps.mark(r.FormValue("topic"))
	s.latencies.mark(r.FormValue("topic"))
	return nil
}

// probe sends a record to each partition at the same time. It reports the time until each record's
// acknowledgement.
func (s *server) probe(r *http.Request, a *account, response *Stats) error {
	count, err := strconv.ParseInt(r.FormValue("partitions"), 10, 32)
	if err != nil {
		return fmt.Errorf("parameter partitions: %w", err)
	}
	s.mu.Lock()
	a.loads++
	load := a.loads
	s.mu.Unlock()
	response.Latencies, err = traffic.Probe(r.Context(), s.probing(), a.book,
		traffic.Probes{Topic: r.FormValue("topic"), Partitions: int32(count), Load: load})
	return err
}

func (s *server) check(r *http.Request, a *account, response *Stats) (err error) {
	read := traffic.VerifyCompacted
	if r.FormValue("all") != "" {
		read = traffic.VerifyComplete
	}
	response.Held, err = read(r.Context(), s.bootstrap, r.FormValue("topic"), a.book)
	return err
}

// open creates the producers. If it is not 0, dial is their connection timeout. If it is not 0,
// timeout is the timeout of their Produce requests, and also the time for which they then still
// wait for the response.
func (s *server) open(dial, timeout time.Duration) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.bootstrap...), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(64 << 10),
		kgo.MaxBufferedRecords(10_000), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.UnknownTopicRetries(-1), kgo.WithLogger(logger("")),
	}
	if dial > 0 {
		options = append(options, kgo.DialTimeout(dial))
	}
	if timeout > 0 {
		options = append(options, kgo.ProduceRequestTimeout(timeout),
			kgo.RequestTimeoutOverhead(timeout))
	}
	producer, err := kgo.NewClient(append(options, kgo.WithHooks(s.gaps, s.latencies),
		kgo.RecordPartitioner(roundRobin()))...)
	if err != nil {
		return fmt.Errorf("create a producer for %v: %w", s.bootstrap, err)
	}
	prober, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		producer.Close()
		return fmt.Errorf("create a producer for %v: %w", s.bootstrap, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.producer, s.prober = producer, prober
	return nil
}

func (s *server) close() {
	s.producing().Close()
	s.probing().Close()
}

func (s *server) reopen(r *http.Request, _ *account, _ *Stats) error {
	var durations [2]time.Duration
	for i, name := range []string{"dial", "timeout"} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		var err error
		if durations[i], err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	s.close()
	return s.open(durations[0], durations[1])
}

func (s *server) producing() *kgo.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.producer
}

func (s *server) probing() *kgo.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prober
}
