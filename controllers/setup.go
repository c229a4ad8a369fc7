package controllers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

// fieldOwner is who the operator is to server-side apply, and its name in events.
const fieldOwner = "heartwood-operator"

// Setup adds all controllers to a manager. The manager should be made with CacheByObject, and must
// not have started yet. It works once a process: metrics go to controller-runtime's registry, which
// takes each only once. After an error the manager is not to be used.
func Setup(mgr ctrl.Manager, settings render.Settings) error {
	return setup(mgr, settings, reportOptions{})
}

// CacheByObject bounds what a manager's cache holds: of the Leases only those of brokers, as every
// node has one, too, and renews it every few seconds; of the pods only those of brokers, and of
// these what tells of their end. untrack needs what it leaves of Partitions.
func CacheByObject() map[client.Object]cache.ByObject {
	ofBrokers, err := labels.NewRequirement(v1alpha1.LabelCluster, selection.Exists, nil)
	if err != nil {
		panic(err) // the label's name is a constant
	}
	return map[client.Object]cache.ByObject{
		&coordinationv1.Lease{}: {Label: labels.NewSelector().Add(*ofBrokers)},
		&corev1.Pod{}:           {Label: labels.NewSelector().Add(*ofBrokers), Transform: leanPod},
		&v1alpha1.Partition{}:   {Transform: markTracked},
	}
}

// newController begins a controller that reconciles so many resources at once. It logs less than
// controller-runtime would: nothing of its start, unless debugging, and of a resource its name
// once.
func newController(mgr ctrl.Manager, name string, atOnce int) *ctrl.Builder {
	logger := mgr.GetLogger().WithValues("controller", name)
	return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{
		MaxConcurrentReconciles: atOnce,
		LogConstructor: func(request *ctrl.Request) logr.Logger {
			if request == nil {
				return logger.V(1)
			}
			return logger.WithValues("namespace", request.Namespace, "name", request.Name)
		},
	})
}

// reportOptions say how brokers are asked for their reports, and how long the rest takes; the zero
// value works.
type reportOptions struct {
	interval  time.Duration     // between two rounds; default 15 s
	transport http.RoundTripper // default: Go's own
	homeAfter time.Duration     // see homeAfter, the default
	settled   time.Duration     // of rollouts; see settledAfter, the default
}

// setup is Setup with what tests replace. All that controllers share is made here: brokers,
// partitions (broker to partition, to LogCluster), reports.
func setup(mgr ctrl.Manager, settings render.Settings, options reportOptions) error {
	if err := addIndexes(mgr); err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	lastSuccess, err := newLastSuccess()
	if err != nil {
		return err
	}
	outages, err := newOutages()
	if err != nil {
		return err
	}
	brokers := newBrokers(mgr.GetClient(), mgr.GetAPIReader())
	partitions, clusters := make(chan event.GenericEvent), make(chan event.GenericEvent)
	ended := make(chan event.GenericEvent)
	connections := newConnections(func(ctx context.Context, key types.NamespacedName, epoch int64) {
		brokers.end(key, epoch)
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = key.Namespace, key.Name
		select {
		case ended <- event.GenericEvent{Object: lease}:
		case <-ctx.Done():
		}
	})
	if err := mgr.Add(connections); err != nil {
		return fmt.Errorf("add the connections to brokers: %w", err)
	}
	reports := newReporter(mgr.GetClient(), options)
	if err := mgr.Add(reports); err != nil {
		return fmt.Errorf("add the reporter: %w", err)
	}
	for _, controller := range []interface{ setup(ctrl.Manager) error }{
		&logClusterReconciler{Client: mgr.GetClient(), settings: settings,
			events: newAnnouncer(mgr), lastSuccess: lastSuccess,
			settledAfter: cmp.Or(options.settled, settledAfter), settling: settling{}},
		&logClusterStatusReconciler{Client: mgr.GetClient(), events: newAnnouncer(mgr),
			brokers: brokers, told: clusters},
		&topicReconciler{Client: mgr.GetClient(), events: newAnnouncer(mgr), reports: reports,
			lastSuccess: lastSuccess,
			placed:      map[types.NamespacedName]placed{}, departed: &departed{}, pace: pace{}},
		&brokerReconciler{Client: mgr.GetClient(), brokers: brokers, partitions: partitions,
			clusters: clusters,
			told:     map[types.NamespacedName]told{},
			racks:    newRacks(mgr.GetClient(), mgr.GetAPIReader()), connections: connections,
			ended: ended},
		&partitionReconciler{Client: mgr.GetClient(), events: newAnnouncer(mgr), brokers: brokers,
			told: partitions, outages: outages,
			homes: newHomes(cmp.Or(options.homeAfter, homeAfter))},
	} {
		if err := controller.setup(mgr); err != nil {
			return fmt.Errorf("set up %T: %w", controller, err)
		}
	}
	return nil
}
