package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/placement"
)

// librariesLog ensures that only the process's first store sets the logger of the Kubernetes
// libraries, because SetLogger is not safe for concurrent use.
var librariesLog sync.Once

// Options contains the options of a Store.
type Options struct {
	Config    *rest.Config
	Namespace string
	Cluster   string // name of the LogCluster
	// PodUID is the uid of the broker's pod, which lets the operator detect that the broker has
	// exited. It is "" outside a pod.
	PodUID string
	// Trust returns the value of Registration.Trust for this broker's Lease, or "" for none. It may be
	// nil.
	Trust func() string
	// Passwords is set if a listener of this broker authenticates clients by passwords. The first
	// image then waits for the Secrets with verifiers, because clients do not retry after a failed
	// login.
	Passwords bool
	// UnknownUsers returns the value of the key v1alpha1.KeyUnknownUsers. It may be nil.
	UnknownUsers func() []byte
	Registry     prometheus.Registerer // registry for the store's metrics; may be nil
	Logger       *slog.Logger          // logger; by default, messages are discarded

	times times
}

// Store is a broker's metadata store. It watches Topics, PartitionSets and broker Leases, renews
// its own Lease, and writes the state of the partitions that it leads. Its methods are safe for
// concurrent use.
type Store struct {
	opts Options
	// client reads directly from the API server, without the cache.
	client client.Client
	cache  cache.Cache                     // cache that the watches fill
	self   atomic.Pointer[metadata.Broker] // this broker, as registered
	keeper atomic.Pointer[keeper]          // keeper of this broker's Lease
	// registering is the keeper that acquires the Lease, or has acquired it.
	registering atomic.Pointer[keeper]
	volume      atomic.Pointer[v1alpha1.BrokerVolume] // last argument of ReportVolume
	scrub       atomic.Pointer[string]                // last argument of ReportScrub, as text
	// unreachable is the last argument of ReportUnreachable. The channel renew has a buffer of one.
	unreachable atomic.Pointer[string]
	renew       chan struct{}
	writer      *commit.Writer // writer of PartitionSets
	// These fields are derived from the last image.
	alive     atomic.Pointer[map[int32]metadata.Broker]
	states    atomic.Pointer[map[int32]placement.BrokerState]
	directory atomic.Pointer[directory]
	decoded   decodedSets
	reported  reportedPartitions
	secrets   *secretWatches // used only by the goroutine of follow
	metrics   *metrics

	// Event handlers set these flags. Each channel has a buffer of one.
	changed chan struct{} // flag that a LogCluster, Topic or PartitionSet has changed
	leases  chan struct{} // flag that a Lease has changed
}

// New returns a store. It makes no requests before Run is called.
func New(opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Config == nil || opts.Namespace == "" || opts.Cluster == "" {
		return nil, errors.New("create the store: Config, Namespace and Cluster are required")
	}
	opts.times = opts.times.withDefaults()
	librariesLog.Do(func() { ctrllog.SetLogger(logr.FromSlogHandler(opts.Logger.Handler())) })
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme),
		coordinationv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register resources: %w", err)
	}
	config := rest.CopyConfig(opts.Config)
	// Disable client-side rate limiting, because it would delay the Lease's renewal behind writes of
	// PartitionSets.
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noRetry{next} })
	s := &Store{opts: opts, changed: make(chan struct{}, 1), leases: make(chan struct{}, 1),
		renew: make(chan struct{}, 1), metrics: newMetrics()}
	s.writer = commit.New(commitAPI{s}, commit.Options{Timeout: opts.times.request,
		Writers: s.countBrokers})
	var err error
	mapper := newMapper()
	if s.client, err = client.New(config,
		client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	watches, err := WatchClient(config)
	if err != nil {
		return nil, fmt.Errorf("create the client of the watches: %w", err)
	}
	options := s.cacheOptions(scheme)
	options.Mapper, options.HTTPClient = mapper, watches
	if s.cache, err = cache.New(config, options); err != nil {
		return nil, fmt.Errorf("create the cache: %w", err)
	}
	s.secrets = &secretWatches{config: config, http: watches, mapper: mapper, scheme: scheme,
		namespace: opts.Namespace, changed: func() { notify(s.changed) },
		watches: map[string]cache.Cache{}}
	s.register(opts.Registry)
	return s, nil
}

// countBrokers returns the number of brokers in the last image.
func (s *Store) countBrokers() int {
	if alive := s.alive.Load(); alive != nil {
		return len(*alive)
	}
	return 0
}

// cacheOptions restricts the watches to this cluster, as far as the API server's selectors allow.
func (s *Store) cacheOptions(scheme *runtime.Scheme) cache.Options {
	ofCluster := labels.SelectorFromSet(labels.Set{v1alpha1.LabelCluster: s.opts.Cluster})
	return cache.Options{
		Scheme:            scheme,
		DefaultNamespaces: map[string]cache.Config{s.opts.Namespace: {}},
		// Deep copies are unnecessary, because this package does not change listed objects.
		DefaultUnsafeDisableDeepCopy: new(true),
		// Drop managed fields, which are half of each object's size. An update may omit them: the API
		// server then keeps them.
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.PartitionSet{}: {Label: ofCluster},
			&coordinationv1.Lease{}:  {Label: ofCluster},
			&v1alpha1.LogCluster{}: {Field: fields.OneTermEqualSelector("metadata.name",
				s.opts.Cluster)},
		},
	}
}

// Run implements metadata.Store. The first image is built when the caches are complete and the
// LogCluster exists.
func (s *Store) Run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.secrets.running.Wait()
	defer cancel()
	s.addHandlers(ctx)
	watches := make(chan error, 1)
	go func() {
		watches <- s.cache.Start(ctx)
		cancel() // stops the store, because no further image can be built without watches
	}()
	err := s.run(ctx, self, apply)
	cancel()
	if watching := <-watches; err == nil && watching != nil {
		err = fmt.Errorf("watch resources: %w", watching)
	}
	return err
}

// addHandlers adds the event handlers. It retries until ctx ends, because the API server may be
// unavailable when a broker starts.
func (s *Store) addHandlers(ctx context.Context) {
	for attempts := (outage.State{}); ; {
		err := s.tryAddHandlers(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if attempts.Fail(time.Now()) {
			s.opts.Logger.Warn("failed to watch resources; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lease.RenewInterval):
		}
	}
}

// tryAddHandlers adds the event handlers, which set the flags of s.
func (s *Store) tryAddHandlers(ctx context.Context) error {
	for object, flag := range map[client.Object]chan struct{}{
		&v1alpha1.LogCluster{}: s.changed, &v1alpha1.Topic{}: s.changed,
		&v1alpha1.PartitionSet{}: s.changed, &coordinationv1.Lease{}: s.leases,
		&v1alpha1.LogUser{}: s.changed,
	} {
		informer, err := s.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		set := func() { notify(flag) }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { set() },
			UpdateFunc: func(before, after any) {
				if affectsImage(before, after) {
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

// notify sets a flag.
func notify(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

// affectsImage reports whether an update can change an image. An image does not depend on the
// status of LogClusters, Topics and LogUsers, which only aggregates the states of partitions, and
// is written many times while a broker fails or returns. Of these resources' annotations, an image
// depends only on AnnotationCleanNow and AnnotationScrubNow.
func affectsImage(before, after any) bool {
	switch before.(type) {
	case *v1alpha1.LogCluster, *v1alpha1.Topic, *v1alpha1.LogUser:
		before, after := before.(client.Object), after.(client.Object)
		return before.GetUID() != after.GetUID() ||
			before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
			slices.ContainsFunc([]string{v1alpha1.AnnotationCleanNow, v1alpha1.AnnotationScrubNow},
				func(name string) bool {
					return before.GetAnnotations()[name] != after.GetAnnotations()[name]
				})
	default:
		return true
	}
}

// run acquires the Lease and builds images until ctx ends or the Lease is lost.
func (s *Store) run(ctx context.Context, self metadata.Broker, apply func(*metadata.Image)) error {
	keeper := newKeeper(s.client, s.opts, self)
	keeper.scrub = s.reportedScrub
	keeper.volume, keeper.unreachable, keeper.hurry = s.reportedVolume, s.reportedUnreachable, s.renew
	keeper.recordLosses = s.recordLosses
	s.registering.Store(keeper)
	epoch, err := keeper.acquire(ctx)
	if err != nil {
		return nil // acquire fails only when ctx ends
	}
	self.Epoch, self.Leaving, self.Losses = epoch, false, nil
	// The bound for producer ids in the Lease may be higher than the requested bound. Read it before
	// keep starts, because from then on keeper.registered belongs to keep's goroutine.
	self.ProducerIDs = max(0, keeper.registered.ProducerIDs)
	s.self.Store(&self)
	s.keeper.Store(keeper)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewal := make(chan error, 1)
	go func() {
		renewal <- keeper.keep(ctx)
		cancel()
	}()
	if s.cache.WaitForCacheSync(ctx) {
		s.follow(ctx, &view{liveness: liveness{self: self}, apply: apply,
			renewed: keeper.lastRenewed})
	}
	cancel()
	return <-renewal
}

// follow updates the view whenever the image may have changed.
func (s *Store) follow(ctx context.Context, v *view) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	v.changed = true
	var changes coalescer
	for updates := (outage.State{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			v.changed = true
			if delay, first := changes.change(); first {
				timer.Reset(delay)
			}
			continue
		case <-s.leases:
		case <-timer.C:
		}
		began := time.Now()
		next, err := s.update(ctx, v)
		if err == nil {
			updates.Succeed()
		} else if ctx.Err() == nil && updates.Fail(began) {
			s.opts.Logger.Warn("failed to build a metadata image; retrying", "error", err)
		}
		changes.built(time.Since(began))
		timer.Reset(next)
	}
}

// view contains the state of follow.
type view struct {
	liveness liveness
	renewed  func() time.Time // returns the time at which this broker's Lease was last renewed
	apply    func(*metadata.Image)

	changed bool // true if the resources may differ from the last image
	// again is the time at which the resources must be read again even without an event; zero if there
	// is none. It is needed because no event announces that a Secret does not exist.
	again    time.Time
	alive    map[int32]metadata.Broker
	cache    imageCache
	last     *metadata.Image
	reported string // text of the faults that were logged last
	unread   unreadSecret
}

// update updates the view, and applies a new image if it differs from the last one. It returns the
// time after which it must be called again at the latest.
func (s *Store) update(ctx context.Context, v *view) (time.Duration, error) {
	now := time.Now()
	leases := &coordinationv1.LeaseList{}
	if err := s.cache.List(ctx, leases); err != nil {
		return lease.RenewInterval, fmt.Errorf("list leases: %w", err)
	}
	v.liveness.observe(pointers(leases.Items), v.renewed(), now)
	alive := v.liveness.brokers(now)
	if !v.changed && maps.Equal(alive, v.alive) && (v.again.IsZero() || now.Before(v.again)) {
		return v.next(now), nil
	}
	all, err := s.resources(ctx)
	if err != nil {
		return lease.RenewInterval, err
	}
	unread, err := s.addSecrets(ctx, &all)
	if v.unread.note(unread, now) {
		s.opts.Logger.Warn("failed to read a Secret with passwords; retrying", "secret", unread)
	}
	complete := unread == "" || v.last != nil || !s.opts.Passwords
	if err == nil && v.last == nil && complete {
		complete, err = s.cacheComplete(ctx, all)
	}
	if err != nil || !complete {
		return lease.RenewInterval / 4, err
	}
	v.alive, v.changed, v.again = alive, false, time.Time{}
	if unread != "" {
		v.again = now.Add(lease.RenewInterval)
	}
	s.applyImage(v, all)
	return v.next(now), nil
}

// next returns the time after which update must be called again at the latest.
func (v *view) next(now time.Time) time.Duration {
	next := v.liveness.next(now)
	if !v.again.IsZero() {
		next = min(next, max(v.again.Sub(now), 0))
	}
	return next
}

// cacheComplete reports whether the caches contain every topic and partition that exists. A watch
// may begin with an outdated list from an API server's cache. If a topic were missing from the
// first image, its records would be deleted. For the same reason all sets of the LogCluster must
// exist. The operator creates them, even a set that was deleted by mistake.
func (s *Store) cacheComplete(ctx context.Context, all resources) (bool, error) {
	topics, sets := &v1alpha1.TopicList{}, &v1alpha1.PartitionSetList{}
	namespace := client.InNamespace(s.opts.Namespace)
	if err := s.client.List(ctx, topics, namespace); err != nil {
		return false, fmt.Errorf("list topics: %w", err)
	}
	if err := s.client.List(ctx, sets, namespace,
		client.MatchingLabels{v1alpha1.LabelCluster: s.opts.Cluster}); err != nil {
		return false, fmt.Errorf("list partition sets: %w", err)
	}
	known := map[types.UID]bool{}
	for _, t := range all.topics {
		known[t.UID] = true
	}
	for i := range topics.Items {
		if !known[topics.Items[i].UID] {
			return false, nil
		}
	}
	live := (&decodedSets{}).decode(s.opts.Cluster, pointers(sets.Items))
	return live.complete() && all.sets.contain(live), nil
}

// applyImage builds an image, and applies it only if it differs from the last one, because apply
// iterates over all partitions.
func (s *Store) applyImage(v *view, all resources) {
	if all.cluster == nil {
		// The LogCluster was deleted, or has not been created yet. The settings of topics are unknown, so
		// keep the last image.
		s.reportFaults(v, fmt.Errorf("LogCluster %s does not exist", s.opts.Cluster))
		return
	}
	image, faults := v.cache.image(all, v.alive, v.last)
	s.reportFaults(v, append(faults, v.liveness.invalid...)...)
	if image == nil {
		return
	}
	changed := v.last == nil || !reflect.DeepEqual(image, v.last)
	if !changed {
		image = v.last
	}
	// Store these before the image is applied, because calls caused by the image use them.
	alive, states := v.alive, make(map[int32]placement.BrokerState, len(v.alive))
	for id, broker := range alive {
		states[id] = broker.State()
	}
	s.alive.Store(&alive)
	s.states.Store(&states)
	s.directory.Store(all.directory(image))
	if changed {
		v.last = image
		v.apply(image)
	}
}

// faultsShown is the maximum number of faults in one log line.
const faultsShown = 5

// reportFaults logs faults if they have changed, because every update finds the same faults again.
func (s *Store) reportFaults(v *view, faults ...error) {
	var lines []string
	for _, fault := range faults[:min(len(faults), faultsShown)] {
		lines = append(lines, fault.Error())
	}
	if more := len(faults) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(lines, "\n")
	if text != "" && text != v.reported {
		s.opts.Logger.Error("failed to include resources in the metadata image", "error", text)
	}
	v.reported = text
}

// resources returns the cached resources.
func (s *Store) resources(ctx context.Context) (resources, error) {
	clusters, topics, sets, users := &v1alpha1.LogClusterList{}, &v1alpha1.TopicList{},
		&v1alpha1.PartitionSetList{}, &v1alpha1.LogUserList{}
	for _, list := range []client.ObjectList{clusters, topics, sets, users} {
		if err := s.cache.List(ctx, list); err != nil {
			return resources{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	all := resources{name: s.opts.Cluster, topics: pointers(topics.Items),
		users: pointers(users.Items),
		sets:  s.decoded.decode(s.opts.Cluster, pointers(sets.Items))}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Name == s.opts.Cluster &&
			cluster.DeletionTimestamp.IsZero() {
			all.cluster = cluster
		}
	}
	return all, nil
}

// pointers returns pointers to the items of a list. Nothing may be appended to the list afterwards.
func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
