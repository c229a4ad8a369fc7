package controllers

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/assignment"
	"heartwood.dev/heartwood/controllers/broker"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/certificates"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/election"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/logcluster"
	"heartwood.dev/heartwood/controllers/logcluster/apply"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/maystop"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
	"heartwood.dev/heartwood/controllers/logcluster/replace"
	"heartwood.dev/heartwood/controllers/logcluster/roll"
	"heartwood.dev/heartwood/controllers/logcluster/status"
	"heartwood.dev/heartwood/controllers/loguser"
	"heartwood.dev/heartwood/controllers/opmetrics"
	"heartwood.dev/heartwood/controllers/peertls"
	"heartwood.dev/heartwood/controllers/rebalance"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/secrets"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/controllers/topic"
	"heartwood.dev/heartwood/controllers/volumes"
	"heartwood.dev/heartwood/internal/operator/render"
)

// Setup adds all controllers to a manager. The manager must have been created with CacheByObject
// and must not have started. Setup can be called only once per process, because it registers
// metrics with controller-runtime's registry. After an error the manager must not be used.
func Setup(mgr ctrl.Manager, settings render.Settings) error {
	return setup(mgr, settings,
		options{now: func(string) time.Time { return time.Now() }})
}

// CacheByObject restricts the content of a manager's cache. Of the Leases, pods and Secrets, it
// caches only the brokers' Leases and pods, and the Secrets that the operator creates. Without this
// restriction, it would also cache the Lease of each node, which the kubelet renews every few
// seconds. The transforms remove fields that no controller reads.
func CacheByObject() map[client.Object]cache.ByObject {
	ofBrokers, err := labels.NewRequirement(v1alpha1.LabelCluster, selection.Exists, nil)
	if err != nil {
		panic(err) // impossible: the label's name is a constant
	}
	return map[client.Object]cache.ByObject{
		&coordinationv1.Lease{}: {Label: labels.NewSelector().Add(*ofBrokers)},
		&corev1.Pod{}: {Label: labels.NewSelector().Add(*ofBrokers),
			Transform: brokerstate.TrimPod},
		// The Secrets of users and other programs are not cached. They are read when they are needed.
		&corev1.Secret{}: {Label: labels.NewSelector().Add(*ofBrokers)},
		&corev1.PersistentVolumeClaim{}: {
			Label:     labels.SelectorFromSet(render.ClaimLabels()),
			Transform: cache.TransformStripManagedFields()},
		&v1alpha1.PartitionSet{}: {Transform: cache.TransformStripManagedFields()},
	}
}

// options are settings of the controllers that tests override. In every field except now, the zero
// value selects the default.
type options struct {
	reports              reports.Options
	preferredLeaderDelay time.Duration // see election.Reconciler
	topicPace            topic.Pace
	sizesWait            time.Duration // see assignment.Reconciler
	settleTime           time.Duration // see roll.Roller
	resizeWait           time.Duration // see apply.Applier
	rolloutInterval      time.Duration // see roll.Roller
	rebalanceInterval    time.Duration // see rebalance.Reconciler
	volumesInterval      time.Duration // see volumes.Reconciler
	providedInterval     time.Duration // see loguser.Reconciler
	// now returns the time that applies to certificates and passwords in a namespace.
	now func(namespace string) time.Time
}

// clusterReconciler sets the remaining fields of a Reconciler of LogClusters.
func clusterReconciler(mgr ctrl.Manager, settings render.Settings, options options,
	r *logcluster.Reconciler, peers *peertls.Client,
	events conditions.Recorder) *logcluster.Reconciler {
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	mayStop := &maystop.Asker{Transport: options.reports.Transport, TLS: peers}
	r.Client = c
	r.Apply = apply.Applier{Client: c, Live: live, Settings: settings, Events: events,
		ResizeWait: options.resizeWait}
	r.Replace = &replace.Replacer{Client: c, Live: live, Events: events, MayStop: mayStop}
	r.Roll.Client, r.Roll.Events, r.Roll.MayStop, r.Roll.Replace = c, events, mayStop, r.Replace
	r.Roll.SettleTime, r.Roll.Interval = options.settleTime, options.rolloutInterval
	return r
}

// setup creates the objects that the controllers share, and then adds the controllers.
func setup(mgr ctrl.Manager, settings render.Settings, options options) error {
	if err := index.Add(mgr); err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	lastSuccess, err := opmetrics.NewLastSuccess(metrics.Registry)
	if err != nil {
		return err
	}
	if err := opmetrics.RegisterClusters(mgr.GetClient()); err != nil {
		return err
	}
	peers := peertls.New(mgr.GetClient(), options.now)
	shared := conditions.NewShared()
	options.reports.TLS, options.reports.Status = peers, shared
	collector := reports.NewCollector(mgr.GetClient(), options.reports)
	if err := mgr.Add(collector); err != nil {
		return fmt.Errorf("add the collector of reports: %w", err)
	}
	c, events := mgr.GetClient(), conditions.NewRecorder(mgr)
	brokers := brokerstate.NewTracker(c, mgr.GetAPIReader())
	store := secrets.Store{Client: c, Live: mgr.GetAPIReader()}
	expiries, err := certificates.NewMetrics()
	if err != nil {
		return err
	}
	reader, writer := sets.NewReader(c), sets.NewWriter(c, mgr.GetAPIReader())
	outcomes := &outcome.Outcomes{}
	elections, clusters, topics, racks := make(chan event.GenericEvent),
		make(chan event.GenericEvent), make(chan event.GenericEvent), make(chan event.GenericEvent)
	brokerStates := &broker.Reconciler{Client: c, Live: mgr.GetAPIReader(), Brokers: brokers,
		TLS: peers, Events: events, RackKnown: racks,
		Notified: []chan<- event.GenericEvent{elections, clusters, topics}}
	for _, controller := range []interface{ Setup(ctrl.Manager) error }{
		clusterReconciler(mgr, settings, options, &logcluster.Reconciler{
			LastSuccess: lastSuccess, Outcomes: outcomes, Changed: clusters,
			Facts: facts.Gatherer{Reader: c, Sets: reader, Brokers: brokers},
			Roll:  roll.Roller{Writer: writer, Reports: collector}}, peers, events),
		&status.Reconciler{Client: c, Live: mgr.GetAPIReader(), Events: events,
			Brokers: brokers, Sets: reader,
			Outcomes: outcomes, BrokerChanges: clusters, Shared: shared},
		&certificates.Reconciler{Store: store, Conditions: shared, Events: events,
			Metrics: expiries, Now: options.now},
		&loguser.Reconciler{Store: store, Events: events, Now: options.now,
			ProvidedInterval: options.providedInterval},
		&loguser.ScramReconciler{Store: store, Conditions: shared, Now: options.now},
		&assignment.Reconciler{Client: c, Live: mgr.GetAPIReader(), Sets: reader, Writer: writer,
			Racks: brokerStates.Rack, RackChanges: racks,
			Events: events, Reports: collector, Status: shared, SizesWait: options.sizesWait},
		&rebalance.Reconciler{Client: c, Sets: reader, Writer: writer, Brokers: brokers,
			Reports: collector, Events: events, Status: shared,
			Transport: options.reports.Transport, TLS: peers,
			Interval: options.rebalanceInterval},
		&volumes.Reconciler{Client: c, Live: mgr.GetAPIReader(), Sets: reader, Brokers: brokers,
			Events: events, Status: shared, Interval: options.volumesInterval},
		&topic.Reconciler{Client: c, Events: events, Brokers: brokers, Sets: reader,
			Reports: collector, LastSuccess: lastSuccess, BrokerChanges: topics,
			Pace: options.topicPace},
		brokerStates,
		&election.Reconciler{Client: c, Events: events, Brokers: brokers, Sets: reader,
			Writer: writer, BrokerChanges: elections,
			PreferredLeaderDelay: options.preferredLeaderDelay},
	} {
		if err := controller.Setup(mgr); err != nil {
			return fmt.Errorf("set up %T: %w", controller, err)
		}
	}
	return nil
}
