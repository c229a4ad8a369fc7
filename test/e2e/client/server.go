package main

import (
	"context"
	"encoding/json"
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

// server holds an account for each topic.
type server struct {
	ctx       context.Context // of the process: a stream outlives the request that began it
	bootstrap []string
	gaps      *gaps

	mu       sync.Mutex
	producer *kgo.Client
	prober   *kgo.Client // a producer that is told the partition
	accounts map[string]*account
}

// account is what one topic was sent.
type account struct {
	book   *ledger.Ledger
	loads  uint64     // so that no two loads write the same values
	stop   func()     // of the running stream, or nil
	stream chan int64 // gives how much the stream handed over, once it ended
	group  *group     // that consumes, or nil
}

// Stats is the answer of every call that succeeds.
type Stats struct {
	Acknowledged int `json:"acknowledged"` // records, since the pod began
	Keys         int `json:"keys"`         // distinct keys among them
	Held         int `json:"held"`         // records that the topic holds; of /check only
	// Gap is the longest time that a partition took no writes since the stream began or was marked,
	// in milliseconds; Gaps has it for each, and Began how long after the mark that was.
	Gap   int64           `json:"gap"`
	Gaps  map[int32]int64 `json:"gaps"`
	Began map[int32]int64 `json:"began"`

	// by partition: after how many milliseconds it took a record; of /probe only
	Taken  map[int32]int64 `json:"taken"`
	Moving int             `json:"moving"` // partitions whose replicas move; of /moving only
	// by broker: batches that came from it; of /nearest only
	Sources map[int32]int `json:"sources"`
	// distinct records that the group had; of /group calls only
	Consumed int `json:"consumed"`
	// records that it had more than once; of /group calls only
	Again int `json:"again"`
}

// call answers a request about one topic: it fills in what the answer has of its own.
type call func(*http.Request, *account, *Stats) error

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for route, call := range map[string]call{
		"POST /produce": s.produce, "POST /stream": s.stream, "POST /stop": s.stop,
		"POST /reopen": s.reopen, "POST /mark": s.mark, "POST /probe": s.probe,
		"GET /check": s.check,
		"GET /stats": func(*http.Request, *account, *Stats) error { return nil },
		"POST /move": s.move, "GET /moving": s.moving, "POST /elect": s.elect,
		"GET /nearest": s.nearest,
		"POST /join":   s.join, "GET /group": s.consumed, "POST /leave": s.leave,
	} {
		mux.HandleFunc(route, s.serve(call))
	}
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// serve answers with the topic's stats, or with what went wrong. The words are logged, too: who
// proxies may not pass them on.
func (s *server) serve(call call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		topic := r.FormValue("topic")
		account, answer := s.account(topic), Stats{}
		if err := call(r, account, &answer); err != nil {
			log.Printf("%s: %v", r.URL, err)
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		s.mu.Lock()
		streams := account.stop != nil
		s.mu.Unlock()
		answer.Acknowledged, answer.Keys = account.book.Count(), account.book.Keys()
		answer.Gaps, answer.Began = s.gaps.longest(topic, streams)
		for _, gap := range answer.Gaps {
			answer.Gap = max(answer.Gap, gap)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
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

// load reads the numbers of a request.
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
		return load, fmt.Errorf("give topic and keys, got %q and %d", load.Topic, load.Keys)
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
		return fmt.Errorf("topic %s has a stream", load.Topic)
	}
	s.gaps.begin(load.Topic)
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
	return s.producing().Flush(r.Context())
}

// mark begins to measure gaps anew, in a stream that goes on.
func (s *server) mark(r *http.Request, _ *account, _ *Stats) error {
	s.gaps.mark(r.FormValue("topic"))
	return nil
}

// probe sends a record to each partition at once, and says when each took it.
func (s *server) probe(r *http.Request, a *account, answer *Stats) error {
	count, err := strconv.ParseInt(r.FormValue("partitions"), 10, 32)
	if err != nil {
		return fmt.Errorf("parameter partitions: %w", err)
	}
	s.mu.Lock()
	a.loads++
	load := a.loads
	s.mu.Unlock()
	answer.Taken, err = traffic.Probe(r.Context(), s.probing(), a.book,
		traffic.Probes{Topic: r.FormValue("topic"), Partitions: int32(count), Load: load})
	return err
}

func (s *server) check(r *http.Request, a *account, answer *Stats) (err error) {
	read := traffic.Kept
	if r.FormValue("whole") != "" {
		read = traffic.Whole
	}
	answer.Held, err = read(r.Context(), s.bootstrap, r.FormValue("topic"), a.book)
	return err
}

// open makes the producers.
func (s *server) open() error {
	options := []kgo.Opt{
		kgo.SeedBrokers(s.bootstrap...), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ProducerBatchMaxBytes(64 << 10),
		kgo.MaxBufferedRecords(10_000), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.UnknownTopicRetries(-1), kgo.WithLogger(logger("")),
	}
	producer, err := kgo.NewClient(append(options, kgo.WithHooks(s.gaps))...)
	if err != nil {
		return fmt.Errorf("make a producer for %v: %w", s.bootstrap, err)
	}
	prober, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		producer.Close()
		return fmt.Errorf("make a producer for %v: %w", s.bootstrap, err)
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

func (s *server) reopen(*http.Request, *account, *Stats) error {
	s.close()
	return s.open()
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
