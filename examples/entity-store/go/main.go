// Command go is an entity store in Go. It keeps entities in a compacted topic and serves them over
// HTTP on loopback. Its state is what the topic contains: a write is a record, a deletion is a
// tombstone, and a start reads the topic up to its end.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// followInterval must be much shorter than the topic's tombstone retention.
const followInterval = time.Second

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: go BOOTSTRAP TOPIC")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, bootstrap, topic string) error {
	store, err := openStore(ctx, bootstrap, topic)
	if err != nil {
		return fmt.Errorf("restore the state: %w", err)
	}
	defer store.client.Close()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("ready http://%s restored=%d\n", listener.Addr(), len(store.entities))
	server := &service{store: store}
	go server.follow(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /entities", server.list)
	mux.HandleFunc("GET /entities/{key}", server.get)
	mux.HandleFunc("PUT /entities/{key}", server.put)
	mux.HandleFunc("DELETE /entities/{key}", server.delete)
	return http.Serve(listener, mux) //nolint:gosec // G114: only local users connect
}

// service serves one request at a time.
type service struct {
	mu    sync.Mutex
	store *store
}

// follow reads the topic while no request does. A store that has read a record must read its
// tombstone before the tombstone's retention ends, or it keeps the entity forever.
func (s *service) follow(ctx context.Context) {
	for range time.Tick(followInterval) {
		s.mu.Lock()
		err := s.store.catchUp(ctx)
		s.mu.Unlock()
		if err != nil {
			log.Printf("failed to follow the topic: %v", err)
		}
	}
}

func (s *service) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.store.catchUp(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	keys := make([]string, 0, len(s.store.entities))
	for key := range s.store.entities {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(w, "%s %s\n", key, s.store.entities[key])
	}
}

func (s *service) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.store.catchUp(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	value, found := s.store.entities[r.PathValue("key")]
	if !found {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(value) // a client that has gone needs no response
}

func (s *service) put(w http.ResponseWriter, r *http.Request) {
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil && len(value) == 0 {
		err = errors.New("an entity needs a value")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.write(w, r, value)
}

func (s *service) delete(w http.ResponseWriter, r *http.Request) { s.write(w, r, nil) }

func (s *service) write(w http.ResponseWriter, r *http.Request, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.store.write(r.Context(), r.PathValue("key"), value); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func refuse(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
