package kube

import (
	"context"
	"sync"
	"time"
)

const (
	// secretTTL is how long a Secret is cached.
	secretTTL = time.Minute
	// tokenLifetime is the lifetime of the tokens for the console's ServiceAccount.
	tokenLifetime = time.Hour
)

// cached is a value that expires and is then read again. If it cannot be read, get fails, because
// an old CA or token must not be used for long. The lock is held while the value is read, so that
// concurrent callers read it only once.
type cached[T any] struct {
	read func(ctx context.Context) (value T, valid time.Duration, err error)

	mu    sync.Mutex
	value T
	until time.Time
}

func (c *cached[T]) get(ctx context.Context) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.value, nil
	}
	value, valid, err := c.read(ctx)
	if err == nil {
		c.value, c.until = value, time.Now().Add(valid)
	}
	return value, err
}
