package tokens

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/sasl"
)

// readTimeout limits one read of the keys.
const readTimeout = 10 * time.Second

// Found is the result of reading an issuer's keys.
type Found struct {
	Issuer string // claim iss in its tokens; "": Options.Accept contains it
	JWKS   []byte // RFC 7517
}

// Options configures a Source.
type Options struct {
	// Read reads the keys.
	Read func(ctx context.Context) (Found, error)
	// Accept describes the accepted tokens. If its Issuer is "", Found.Issuer is used.
	Accept sasl.Issuer
	// Name is the issuer's name in log messages.
	Name   string
	Logger *slog.Logger // default: discards everything
}

// Source verifies tokens of one issuer. It implements sasl.TokenVerifier, and is safe for
// concurrent use.
type Source struct {
	o       Options
	current atomic.Pointer[issuer]
	unknown chan struct{} // buffer of one: a token had an unknown key id
}

// issuer is the result of the last successful read. It is immutable.
type issuer struct {
	found Found
	keys  *sasl.Keys
}

// New returns a Source without keys. The caller must call Run, which reads them.
func New(o Options) *Source {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{o: o, unknown: make(chan struct{}, 1)}
}

// Verify implements sasl.TokenVerifier. The error wraps sasl.ErrNoKeys before keys were read, and
// sasl.ErrUnknownKey if the issuer may have new keys.
func (s *Source) Verify(now time.Time, token string) (sasl.Identity, error) {
	current := s.current.Load()
	if current == nil {
		return sasl.Identity{}, sasl.ErrNoKeys
	}
	accept := s.o.Accept
	if accept.Issuer == "" {
		accept.Issuer = current.found.Issuer
	}
	identity, err := accept.Verify(now, current.keys, token)
	if errors.Is(err, sasl.ErrUnknownKey) {
		select {
		case s.unknown <- struct{}{}:
		default:
		}
	}
	return identity, err
}

// Run reads the keys until ctx ends.
func (s *Source) Run(ctx context.Context) {
	var plan schedule
	unknown := false
	for {
		timer := time.NewTimer(time.Until(plan.next(unknown)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.unknown:
			timer.Stop()
			unknown = true
			continue
		case <-timer.C:
		}
		changed, err := s.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if plan.failures == 0 {
				s.o.Logger.Warn("failed to read the keys of an issuer of tokens", "issuer",
					s.o.Name, "error", err, "meanwhile", s.meanwhile())
			}
			plan.failed(time.Now())
			continue
		}
		if changed || plan.failures > 0 {
			s.o.Logger.Info("keys of an issuer of tokens read", "issuer", s.o.Name,
				"changed", changed, "failures", plan.failures)
		}
		plan.succeeded(time.Now(), unknown, changed)
		unknown = false
	}
}

// meanwhile returns a text about what happens until keys are read.
func (s *Source) meanwhile() string {
	if s.current.Load() == nil {
		return "its tokens cannot be verified until they are read"
	}
	return "the previous ones remain in use"
}

// read reads the keys once. If it fails, the previous keys remain in use.
func (s *Source) read(ctx context.Context) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := s.o.Read(ctx)
	if err != nil {
		return false, err
	}
	last := s.current.Load()
	if last != nil && last.found.Issuer == found.Issuer &&
		bytes.Equal(last.found.JWKS, found.JWKS) {
		return false, nil
	}
	keys, err := sasl.ParseKeys(found.JWKS)
	if err != nil {
		return false, err
	}
	s.current.Store(&issuer{found: found, keys: keys})
	return true, nil
}
