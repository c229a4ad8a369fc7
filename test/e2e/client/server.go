package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// server holds an account for each topic.
type server struct {
	ctx       context.Context // of the process: a stream outlives the request that began it
	bootstrap []string
	producer  *kgo.Client
	gaps      *gaps

	mu       sync.Mutex
	accounts map[string]*account
}

// account is what one topic was sent.
type account struct {
	book   *ledger.Ledger
	loads  uint64     // so that no two loads write the same values
	stop   func()     // of the running stream, or nil
	stream chan int64 // gives how much the stream handed over, once it ended
}

// Stats is the answer of every call that succeeds.
type Stats struct {
	Acknowledged int `json:"acknowledged"` // records, since the pod began
	Keys         int `json:"keys"`         // distinct keys among them
	Held         int `json:"held"`         // records that the topic holds; of /check only
	// Gap is the longest time that a partition took no writes since the last stream began, in milliseconds.
	Gap int64 `json:"gap"`
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /produce", s.serve(s.produce))
	mux.HandleFunc("POST /stream", s.serve(s.stream))
	mux.HandleFunc("POST /stop", s.serve(s.stop))
	mux.HandleFunc("GET /check", s.serve(s.check))
	mux.HandleFunc("GET /stats", s.serve(func(*http.Request, *account) (int, error) { return 0, nil }))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// serve answers with the topic's stats, or with what went wrong.
func (s *server) serve(call func(*http.Request, *account) (int, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		account := s.account(r.FormValue("topic"))
		held, err := call(r, account)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		s.mu.Lock()
		streams := account.stop != nil
		s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(Stats{
			Acknowledged: account.book.Count(), Keys: account.book.Keys(), Held: held,
			Gap: s.gaps.longest(r.FormValue("topic"), streams).Milliseconds(),
		})
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
	for name, field := range map[string]*int{"keys": &load.Keys, "rounds": &load.Rounds, "deleteEvery": &load.DeleteEvery, "perSecond": &load.PerSecond} {
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

func (s *server) produce(r *http.Request, a *account) (int, error) {
	load, err := s.load(r, a)
	if err != nil {
		return 0, err
	}
	return 0, traffic.Produce(r.Context(), s.producer, a.book, load)
}

func (s *server) stream(r *http.Request, a *account) (int, error) {
	load, err := s.load(r, a)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.stop != nil {
		return 0, fmt.Errorf("topic %s has a stream", load.Topic)
	}
	s.gaps.begin(load.Topic)
	ctx, cancel := context.WithCancel(s.ctx)
	a.stop, a.stream = cancel, make(chan int64, 1)
	go func(done chan<- int64) { done <- traffic.Stream(ctx, s.producer, a.book, load) }(a.stream)
	return 0, nil
}

func (s *server) stop(r *http.Request, a *account) (int, error) {
	s.mu.Lock()
	stop, stream := a.stop, a.stream
	a.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return 0, fmt.Errorf("topic %s has no stream", r.FormValue("topic"))
	}
	stop()
	<-stream
	return 0, s.producer.Flush(r.Context())
}

func (s *server) check(r *http.Request, a *account) (int, error) {
	return traffic.Kept(r.Context(), s.bootstrap, r.FormValue("topic"), a.book)
}
