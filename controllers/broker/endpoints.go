package broker

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch

// endpoints writes the advertised address of each listener into the broker's Lease, where all
// brokers read it. Only Kubernetes knows the addresses of nodes, node ports and load balancers. If
// an address is unknown, endpoints removes it from the Lease, because clients would connect to an
// outdated address.
type endpoints struct {
	client.Client
	// nodes reads from the API server itself; see racks for the reason.
	nodes client.Reader
	// known caches the addresses of nodes, by the broker's Lease. It is empty after a restart of the
	// operator, which costs one read per broker.
	known keyed.Map[nodeAddresses]
}

// nodeAddresses is the result of reading the node of a broker.
type nodeAddresses struct {
	node       string
	addresses  []corev1.NodeAddress
	validUntil time.Time
}

// leaseOfService maps a broker's Service for a listener to the broker's Lease, which has the name
// of the broker's pod. The endpoint contains the node port or the load balancer of the Service.
func leaseOfService(_ context.Context, service client.Object) []reconcile.Request {
	object, ok := service.(*corev1.Service)
	if !ok || object.Spec.Selector[appsv1.StatefulSetPodNameLabel] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: object.Namespace, Name: object.Spec.Selector[appsv1.StatefulSetPodNameLabel]}}}
}

// write ensures that a broker's Lease contains the endpoints of the listeners. If the update
// conflicts with a renewal by the broker, the event of that renewal triggers another
// reconciliation.
func (e *endpoints) write(ctx context.Context, key types.NamespacedName, cluster string) error {
	_, broker, ok := v1alpha1.ParseBrokerLeaseName(key.Name)
	if !ok {
		return nil
	}
	lease, err := brokerstate.GetLease(ctx, e, key)
	if err != nil || lease == nil {
		e.known.Delete(key)
		return err
	}
	owner := &v1alpha1.LogCluster{}
	if err := e.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: cluster},
		owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	wanted, err := e.of(ctx, key, owner, broker)
	if err != nil {
		return err
	}
	changed := lease.DeepCopy()
	maps.DeleteFunc(changed.Annotations, func(name, _ string) bool {
		return strings.HasPrefix(name, v1alpha1.AnnotationEndpointPrefix)
	})
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	maps.Copy(changed.Annotations, wanted)
	if maps.Equal(changed.Annotations, lease.Annotations) {
		return nil
	}
	if err := e.Update(ctx, changed); err != nil && !apierrors.IsConflict(err) &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("write the endpoints into lease %s: %w", lease.Name, err)
	}
	return nil
}

// of returns the annotations that contain a broker's endpoints.
func (e *endpoints) of(ctx context.Context, key types.NamespacedName,
	cluster *v1alpha1.LogCluster, broker int32) (map[string]string, error) {
	wanted := map[string]string{}
	for _, listener := range cluster.Spec.Listeners.OrDefault() {
		input := render.EndpointInput{Broker: broker}
		if listener.Type == v1alpha1.ListenerNodePort ||
			listener.Type == v1alpha1.ListenerLoadBalancer {
			service := &corev1.Service{}
			err := e.Get(ctx, client.ObjectKey{Namespace: key.Namespace,
				Name: render.BrokerServiceName(cluster.Name, listener.Name, broker)}, service)
			if err == nil {
				input.Service = service
			} else if !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("get service %s: %w", service.Name, err)
			}
		}
		if listener.Type == v1alpha1.ListenerNodePort &&
			(listener.Advertised == nil || listener.Advertised.Host == "") {
			var err error
			if input.NodeAddresses, err = e.node(ctx, key); err != nil {
				return nil, err
			}
		}
		if address := render.Endpoint(cluster, &listener, input); address != "" {
			wanted[v1alpha1.AnnotationEndpointPrefix+listener.Name] = address
		}
	}
	return wanted, nil
}

// node returns the addresses of the node that runs a broker's pod, or none if they are unknown.
func (e *endpoints) node(ctx context.Context,
	key types.NamespacedName) ([]corev1.NodeAddress, error) {
	pod, err := brokerstate.GetPod(ctx, e, key)
	if err != nil || pod == nil || pod.Spec.NodeName == "" {
		return nil, err
	}
	before, _ := e.known.Get(key)
	now := time.Now()
	if before.node == pod.Spec.NodeName && now.Before(before.validUntil) {
		return before.addresses, nil
	}
	timed, cancel := context.WithTimeout(ctx, brokerstate.ReadTimeout)
	defer cancel()
	node := &corev1.Node{}
	found := nodeAddresses{node: pod.Spec.NodeName, validUntil: now.Add(rackReadInterval)}
	if err := e.nodes.Get(timed, client.ObjectKey{Name: found.node}, node); err != nil {
		found.validUntil = now.Add(rackRetryInterval)
		if before.node == found.node {
			found.addresses = before.addresses
		} else {
			ctrl.LoggerFrom(ctx).Info("failed to read the addresses of a broker's node", "lease",
				key.Name, "node", found.node, "error", err.Error())
		}
	} else {
		found.addresses = node.Status.Addresses
	}
	e.known.Set(key, found)
	return found.addresses, nil
}
