package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// librariesLog guards the logger of the Kubernetes libraries, of which a process has one: the first
// store's. SetLogger is not safe to call twice at once.
var librariesLog sync.Once

// Options of a Store.
type Options struct {
	Config    *rest.Config
	Namespace string
	Cluster   string // name of the LogCluster
	// of the pod that this runs in, so that the operator sees by the pod when it ends; "": in none
	PodUID   string
	Registry prometheus.Registerer // of the metrics; nil: none
	Logger   *slog.Logger          // default: none
}

// Store is a broker's view of the API server: it watches Topics, Partitions and broker Leases,
// keeps its own Lease, and writes servingEpoch and isr of the partitions that it leads.
type Store struct {
	opts    Options
	client  client.Client                             // to the API server itself
	cache   cache.Cache                               // what the watches know
	self    atomic.Pointer[metadata.Broker]           // as registered
	keeper  atomic.Pointer[keeper]                    // of its Lease
	up      atomic.Pointer[map[int32]metadata.Broker] // who is, in the last image
	written *written
	names   atomic.Pointer[map[metadata.ID]string] // of the resources of the last image's topics

	changed chan struct{} // holds one: a LogCluster, Topic or Partition changed
	leases  chan struct{} // holds one: a Lease changed
}

// New returns a store; Run connects.
func New(opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Config == nil || opts.Namespace == "" || opts.Cluster == "" {
		return nil, errors.New("the store needs a Config, a Namespace and a Cluster")
	}
	librariesLog.Do(func() { ctrllog.SetLogger(logr.FromSlogHandler(opts.Logger.Handler())) })
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme),
		coordinationv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register resources: %w", err)
	}
	config := rest.CopyConfig(opts.Config)
	config.QPS = -1 // the client's own limit would delay a Lease behind a thousand partitions
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return onceOnly{next} })
	s := &Store{opts: opts, written: newWritten(), changed: make(chan struct{}, 1),
		leases: make(chan struct{}, 1)}
	var err error
	mapper := newMapper()
	if s.client, err = client.New(config,
		client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	watches, err := WatchClient(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of the watches: %w", err)
	}
	options := s.cacheOptions(scheme)
	options.Mapper, options.HTTPClient = mapper, watches
	if s.cache, err = cache.New(config, options); err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	s.register(opts.Registry)
	return s, nil
}

// cacheOptions bound the watches to this cluster, as far as the API server can select.
func (s *Store) cacheOptions(scheme *runtime.Scheme) cache.Options {
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelCluster: s.opts.Cluster})
	return cache.Options{
		Scheme:                       scheme,
		DefaultNamespaces:            map[string]cache.Config{s.opts.Namespace: {}},
		DefaultUnsafeDisableDeepCopy: new(true), // nothing here writes into what it lists
		// Half of each object. The API server goes on with what it has where an update leaves them
		// out.
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Partition{}:   {Label: ours},
			&coordinationv1.Lease{}: {Label: ours},
			&v1alpha1.LogCluster{}: {Field: fields.OneTermEqualSelector("metadata.name",
				s.opts.Cluster)},
		},
	}
}

// Run implements metadata.Store. The image is complete once the watches are in step and the
// LogCluster exists.
func (s *Store) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.watchUntilDone(ctx)
	watches := make(chan error, 1)
	go func() {
		watches <- s.cache.Start(ctx)
		cancel() // without watches there is nothing to follow
	}()
	err := s.run(ctx, self, apply)
	cancel()
	if watching := <-watches; err == nil && watching != nil {
		err = fmt.Errorf("watch resources: %w", watching)
	}
	return err
}

// watchUntilDone tries until the watches are set up: the API server may be away when a broker
// starts.
func (s *Store) watchUntilDone(ctx context.Context) {
	for tries := (outage.State{}); ; {
		err := s.watch(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if tries.Fail(time.Now()) {
			s.opts.Logger.Warn("cannot watch resources yet", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lease.RenewInterval):
		}
	}
}

// watch sets the flags that run waits for.
func (s *Store) watch(ctx context.Context) error {
	for object, flag := range map[client.Object]chan struct{}{
		&v1alpha1.LogCluster{}: s.changed, &v1alpha1.Topic{}: s.changed,
		&v1alpha1.Partition{}:   s.changed,
		&coordinationv1.Lease{}: s.leases,
	} {
		informer, err := s.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		set := func() {
			select {
			case flag <- struct{}{}:
			default:
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { set() },
			UpdateFunc: func(before, after any) {
				if meaningful(before, after) {
					set()
				}
			},
			DeleteFunc: func(any) { set() },
		}); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return nil
}

// meaningful tells whether an update can change an image. The status of LogClusters and Topics sums
// up what Partitions say, and is written again and again while a broker goes or comes; an image
// says nothing of it. Of their annotations it has one.
func meaningful(before, after any) bool {
	switch before.(type) {
	case *v1alpha1.LogCluster, *v1alpha1.Topic:
		before, after := before.(client.Object), after.(client.Object)
		return before.GetUID() != after.GetUID() ||
			before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
			before.GetAnnotations()[v1alpha1.AnnotationCleanNow] != after.GetAnnotations()[v1alpha1.AnnotationCleanNow]
	default:
		return true
	}
}

// run registers, and makes images until ctx ends or the Lease is lost.
func (s *Store) run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	keeper := newKeeper(s.client, s.opts, self)
	epoch, err := keeper.acquire(ctx)
	if err != nil {
		return nil // only ctx ends it
	}
	self.Epoch, self.Leaving = epoch, false
	// what it remembers, which may be more than we said; keep has it from here on
	self.ProducerIDs = producerIDs(keeper.written)
	s.self.Store(&self)
	s.keeper.Store(keeper)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kept := make(chan error, 1)
	go func() {
		kept <- keeper.keep(ctx)
		cancel()
	}()
	if s.cache.WaitForCacheSync(ctx) {
		s.follow(ctx, &view{alive: liveness{self: self}, apply: apply, renewed: keeper.lastRenewed})
	}
	cancel()
	return <-kept
}

// follow calls look when it could have another answer than before.
func (s *Store) follow(ctx context.Context, v *view) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	v.changed = true
	var changes gathering
	for looks := (outage.State{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			v.changed = true
			if wait, first := changes.change(); first {
				timer.Reset(wait)
			}
			continue
		case <-s.leases:
		case <-timer.C:
		}
		began := time.Now()
		next, err := s.look(ctx, v)
		if err == nil {
			looks.Succeed()
		} else if ctx.Err() == nil && looks.Fail(began) {
			s.opts.Logger.Warn("cannot make an image yet", "error", err)
		}
		changes.made(time.Since(began))
		timer.Reset(next)
	}
}

// view is what run has made of the resources so far.
type view struct {
	alive   liveness
	renewed func() time.Time // our own Lease
	apply   func(*metadata.Image)

	changed  bool // resources may say something that last does not
	up       map[int32]metadata.Broker
	last     *metadata.Image
	reported string // faults, so that each is told once
}

// look brings the view up to date and applies a new image if it says something new. It returns when
// to look again at the latest.
func (s *Store) look(ctx context.Context, v *view) (time.Duration, error) {
	now := time.Now()
	leases := &coordinationv1.LeaseList{}
	if err := s.cache.List(ctx, leases); err != nil {
		return lease.RenewInterval, fmt.Errorf("list leases: %w", err)
	}
	v.alive.observe(pointers(leases.Items), v.renewed(), now)
	up := v.alive.brokers(now)
	if !v.changed && maps.Equal(up, v.up) {
		return v.alive.next(now), nil
	}
	all, err := s.resources(ctx)
	if err != nil {
		return lease.RenewInterval, err
	}
	if v.last == nil {
		if inStep, err := s.inStep(ctx, all); err != nil || !inStep {
			return lease.RenewInterval / 4, err
		}
	}
	v.up, v.changed = up, false
	s.written.settle(all.partitions)
	names := all.names()
	s.up.Store(&up) // before the image, and so are names: who acts on that must find them
	s.names.Store(&names)
	s.applyImage(v, all)
	return v.alive.next(now), nil
}

// inStep tells whether the watches know every topic and partition that there is. A watch may begin
// with a list that an API server's cache had a while ago, and a topic that is missing from the
// first image is a topic whose records go.
func (s *Store) inStep(ctx context.Context, all resources) (bool, error) {
	known := map[types.UID]bool{}
	for _, t := range all.topics {
		known[t.UID] = true
	}
	for _, p := range all.partitions {
		known[p.UID] = true
	}
	topics, partitions := &v1alpha1.TopicList{}, &v1alpha1.PartitionList{}
	namespace := client.InNamespace(s.opts.Namespace)
	if err := s.client.List(ctx, topics, namespace); err != nil {
		return false, fmt.Errorf("list topics: %w", err)
	}
	if err := s.client.List(ctx, partitions, namespace,
		client.MatchingLabels{v1alpha1.LabelCluster: s.opts.Cluster}); err != nil {
		return false, fmt.Errorf("list partitions: %w", err)
	}
	for i := range topics.Items {
		if !known[topics.Items[i].UID] {
			return false, nil
		}
	}
	for i := range partitions.Items {
		if !known[partitions.Items[i].UID] {
			return false, nil
		}
	}
	return true, nil
}

// applyImage makes an image and applies it if it differs from the last: an apply costs a walk over
// all partitions.
func (s *Store) applyImage(v *view, all resources) {
	if all.cluster == nil {
		// Deleted, or not made yet: then nothing can be said of topics, and what is held stays as
		// it is.
		s.report(v, fmt.Errorf("LogCluster %s is not there", s.opts.Cluster))
		return
	}
	image, faults := all.image(v.up, v.last)
	s.report(v, faults...)
	if image == nil || v.last != nil && reflect.DeepEqual(image, v.last) {
		return
	}
	v.last = image
	v.apply(image)
}

// report logs faults once, until their text changes: with each event the same faults are found
// again.
func (s *Store) report(v *view, faults ...error) {
	text := ""
	if err := errors.Join(faults...); err != nil {
		text = err.Error()
	}
	if text != "" && text != v.reported {
		s.opts.Logger.Error("resources not taken, or not wholly", "error", text)
	}
	v.reported = text
}

// resources lists what the watches know.
func (s *Store) resources(ctx context.Context) (resources, error) {
	clusters, topics, partitions := &v1alpha1.LogClusterList{}, &v1alpha1.TopicList{},
		&v1alpha1.PartitionList{}
	for _, list := range []client.ObjectList{clusters, topics, partitions} {
		if err := s.cache.List(ctx, list); err != nil {
			return resources{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	all := resources{topics: pointers(topics.Items), partitions: pointers(partitions.Items)}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Name == s.opts.Cluster &&
			cluster.DeletionTimestamp.IsZero() {
			all.cluster = cluster
		}
	}
	return all, nil
}

// pointers points into the list, which must not be appended to after.
func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
