package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// reviewTTL is how long an answer of an Authority is cached. A revoked right or token remains
	// valid for up to that time.
	reviewTTL = 10 * time.Second
	// reviewsMax is the maximum number of cached answers.
	reviewsMax = 4096
	// reviewsRunning is the maximum number of concurrent requests to an Authority. It is limited
	// because any client of the console can cause such requests.
	reviewsRunning = 16
	// reviewTimeout limits one request to an Authority, including the wait for other requests to end.
	reviewTimeout = 5 * time.Second
)

// reviews is an Authority that caches the answers of another Authority. It is safe for concurrent
// use. Its lock is not held during requests.
type reviews struct {
	authority Authority
	running   chan struct{} // with one element for each running request
	group     singleflight.Group
	mu        struct {
		sync.Mutex
		answers map[reviewKey]review
	}
}

// reviewKey identifies a question. It contains a hash of the token, so that the token is not kept
// in memory after its request.
type reviewKey struct {
	token   [sha256.Size]byte
	user    bool // true if the question is the user's name
	cluster ClusterName
	right   Right
}

// review is an answer. It contains the user's name, or whether the user has a right, or that the
// token is not accepted.
type review struct {
	user    string
	allowed bool
	invalid bool
	until   time.Time
}

func newReviews(authority Authority) *reviews {
	r := &reviews{authority: authority, running: make(chan struct{}, reviewsRunning)}
	r.mu.answers = map[reviewKey]review{}
	return r
}

// User implements Authority.
func (r *reviews) User(ctx context.Context, token string) (string, error) {
	answer, err := r.ask(ctx, reviewKey{token: sha256.Sum256([]byte(token)), user: true},
		func(ctx context.Context) (verdict review, err error) {
			verdict.user, err = r.authority.User(ctx, token)
			return verdict, err
		})
	return answer.user, err
}

// May implements Authority.
func (r *reviews) May(ctx context.Context, token string, cluster ClusterName,
	right Right) (bool, error) {
	key := reviewKey{token: sha256.Sum256([]byte(token)), cluster: cluster, right: right}
	answer, err := r.ask(ctx, key, func(ctx context.Context) (verdict review, err error) {
		verdict.allowed, err = r.authority.May(ctx, token, cluster, right)
		return verdict, err
	})
	return answer.allowed && err == nil, err
}

// Clean implements Authority. It caches nothing.
func (r *reviews) Clean(ctx context.Context, token string, cluster ClusterName,
	topic string) error {
	return r.authority.Clean(ctx, token, cluster, topic)
}

// LogUsers implements Authority. It caches nothing.
func (r *reviews) LogUsers(ctx context.Context, token string, cluster ClusterName) ([]LogUser,
	error) {
	return r.authority.LogUsers(ctx, token, cluster)
}

// ask returns the cached answer, or asks the authority. Concurrent equal questions share one
// request, which continues even if the request of the first user ends.
func (r *reviews) ask(ctx context.Context, key reviewKey,
	request func(context.Context) (review, error)) (review, error) {
	if answer, known := r.cached(key, time.Now()); known {
		return answer, answer.err()
	}
	result := r.group.DoChan(key.text(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		select {
		case r.running <- struct{}{}:
			defer func() { <-r.running }()
		case <-ctx.Done():
			return review{}, errors.New("too many requests wait for the API server")
		}
		answer, err := request(ctx)
		if answer.invalid = errors.Is(err, ErrToken); answer.invalid || err == nil {
			r.put(key, answer, time.Now())
		}
		return answer, err
	})
	select {
	case <-ctx.Done():
		return review{}, ctx.Err()
	case shared := <-result:
		answer, _ := shared.Val.(review)
		return answer, shared.Err
	}
}

func (a review) err() error {
	if a.invalid {
		return ErrToken
	}
	return nil
}

// text returns a unique text for the key. A zero byte separates the parts, because names in
// Kubernetes contain none.
func (k reviewKey) text() string {
	kind := byte(k.right)
	if k.user {
		kind = 0xff
	}
	return string(k.token[:]) + string(kind) + k.cluster.Namespace + "\x00" + k.cluster.Name
}

func (r *reviews) cached(key reviewKey, now time.Time) (answer review, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, known = r.mu.answers[key]
	// An answer must not be valid for longer than reviewTTL even if the clock has been set back.
	if !known || !now.Before(answer.until) || answer.until.Sub(now) > reviewTTL {
		return review{}, false
	}
	return answer, true
}

// put adds an answer. If the cache is full, put first removes the expired answers, or all answers
// if none has expired.
func (r *reviews) put(key reviewKey, answer review, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.answers) >= reviewsMax {
		for old, review := range r.mu.answers {
			if !now.Before(review.until) {
				delete(r.mu.answers, old)
			}
		}
	}
	if len(r.mu.answers) >= reviewsMax {
		clear(r.mu.answers)
	}
	answer.until = now.Add(reviewTTL)
	r.mu.answers[key] = answer
}
