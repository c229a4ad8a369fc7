package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// brokers remembers when each broker's Lease was last renewed. It is the shell of observe.
type brokers struct {
	reader client.Reader
	mu     struct {
		sync.Mutex
		seen map[types.NamespacedName]sighting // by Lease
	}
}

func newBrokers(reader client.Reader) *brokers {
	b := &brokers{reader: reader}
	b.mu.seen = map[types.NamespacedName]sighting{}
	return b
}

// look returns what is to be seen of a broker's Lease now; the zero value if there is none.
func (b *brokers) look(ctx context.Context, key types.NamespacedName) (sighting, error) {
	lease := &coordinationv1.Lease{}
	err := b.reader.Get(ctx, key, lease)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return sighting{}, fmt.Errorf("get lease %s: %w", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if gone {
		delete(b.mu.seen, key)
		return sighting{}, nil
	}
	seen := observe(b.mu.seen[key], lease, time.Now())
	b.mu.seen[key] = seen
	return seen, nil
}
