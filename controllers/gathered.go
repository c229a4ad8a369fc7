package controllers

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How long what partitions do is gathered before those look that sum it up. When a broker goes, a
// third of all partitions change within seconds; a status written for each of them would cost more
// than the elections, and every broker sees every write.
const (
	gatherForTopic   = 100 * time.Millisecond
	gatherForCluster = 500 * time.Millisecond
)

// gathered calls a resource some time after the first of any number of events. The queue keeps an
// entry once, at the earliest time it was asked for, so a stream of events cannot put it off. An
// update looks at the new object alone: what find makes of an object (its cluster, its topic)
// cannot be changed.
func gathered(after time.Duration, find handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, object client.Object, to queue) {
		for _, request := range find(ctx, object) {
			to.AddAfter(request, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent,
			to queue) {
			add(ctx, e.Object, to)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent,
			to queue) {
			add(ctx, e.ObjectNew, to)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent,
			to queue) {
			add(ctx, e.Object, to)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent,
			to queue) {
			add(ctx, e.Object, to)
		},
	}
}
