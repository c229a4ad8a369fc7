package certificates

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/controllers/secrets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/pki"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;create;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logusers,verbs=get;list;watch

// controllerName is the controller's name in metrics and logs.
const controllerName = "certificates"

const (
	// checkInterval is the interval at which certificates are checked. It limits the delay of a
	// renewal, which is due a month before the expiry.
	checkInterval = 10 * time.Minute
	// providedInterval is the interval at which the Secrets of users and of cert-manager are read.
	// A watch would cache all Secrets of all namespaces.
	providedInterval = 30 * time.Second
)

// Reconciler issues and renews the certificates of LogClusters.
type Reconciler struct {
	secrets.Store
	Conditions *conditions.Shared
	Events     conditions.Recorder
	Metrics    *Metrics
	Now        func(namespace string) time.Time
}

// Setup adds the controller to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	return watch.NewController(mgr, controllerName, 1).
		For(&v1alpha1.LogCluster{}, builder.WithPredicates(predicate.Or(
			watch.SpecChanged, predicate.AnnotationChangedPredicate{}))).
		Owns(&corev1.Secret{}).
		Owns(&appsv1.StatefulSet{},
			builder.WithPredicates(watch.SpecChanged)).
		Watches(&v1alpha1.LogUser{}, watch.Coalesce(watch.ClusterDelay, watch.ClusterOf)).
		Watches(&coordinationv1.Lease{}, watch.Coalesce(watch.ClusterDelay, clusterOfLease),
			builder.WithPredicates(leaseChanged)).
		Complete(r)
}

// scope is one reconciliation of a LogCluster.
type scope struct {
	*Reconciler
	cluster *v1alpha1.LogCluster
	users   []v1alpha1.LogUser
	leases  []coordinationv1.Lease
	brokers int32 // number of brokers that have peer certificates: those with lower ids
	now     time.Time

	listeners, usersCA, peers *pki.Authority // nil if not needed or not decodable
	brokersTLS, caCert        secrets.Owned
	faults                    []fault
	losses                    []string             // sentences about lost CAs
	overlap                   time.Duration        // see pki.Input
	again                     time.Duration        // time until the next check of the certificates
	expiries                  map[string]time.Time // expiry of each certificate in use, by name
}

// fault is a problem with a certificate.
type fault struct{ reason, message string }

func (s *scope) fault(reason, format string, values ...any) {
	s.faults = append(s.faults, fault{reason, fmt.Sprintf(format, values...)})
}

// Reconcile advances the CAs, issues the certificates that are due, and sets condition
// CertificatesReady. A LogCluster that needs no certificates has neither this condition nor metric
// series of expiries.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, req.NamespacedName, cluster); err != nil {
		r.Metrics.forget(req.NamespacedName)
		r.Conditions.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s, err := r.gather(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.needed() {
		r.Metrics.forget(req.NamespacedName)
		return ctrl.Result{}, errorsOf(
			r.Conditions.Remove(ctx, cluster, v1alpha1.ConditionCertificatesReady),
			r.Conditions.SetExpiry(ctx, cluster, nil))
	}
	s.overlap = s.readOverlap()
	err = s.issue(ctx)
	if foreign := owned.AsForeign(err); foreign != nil {
		s.fault(v1alpha1.ReasonSecretNameTaken, "%s", foreign.Message())
		return ctrl.Result{RequeueAfter: providedInterval}, r.Conditions.Set(ctx, cluster,
			s.condition())
	}
	if err != nil {
		s.fault(v1alpha1.ReasonInvalidCertificate, "The operator failed to %v; it retries.", err)
		return ctrl.Result{}, errorsOf(err, r.Conditions.Set(ctx, cluster, s.condition()))
	}
	r.Metrics.set(req.NamespacedName, s.expiries)
	if err := errorsOf(r.Conditions.Set(ctx, cluster, s.condition()),
		r.Conditions.SetExpiry(ctx, cluster, s.nextExpiry())); err != nil {
		return ctrl.Result{}, err
	}
	if s.provided() {
		s.again = min(s.again, providedInterval)
	}
	return ctrl.Result{RequeueAfter: s.again}, nil
}

// gather reads the scope from the cache.
func (r *Reconciler) gather(ctx context.Context,
	cluster *v1alpha1.LogCluster) (*scope, error) {
	s := &scope{Reconciler: r, cluster: cluster, now: r.Now(cluster.Namespace),
		brokers: cluster.Spec.Brokers, expiries: map[string]time.Time{}, again: checkInterval}
	users, leases := &v1alpha1.LogUserList{}, &coordinationv1.LeaseList{}
	if err := r.List(ctx, users, client.InNamespace(cluster.Namespace),
		client.MatchingFields{index.ByCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	if err := r.List(ctx, leases, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	brokers := &appsv1.StatefulSet{}
	err := r.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}, brokers)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers' StatefulSet: %w", err)
	}
	if brokers.Spec.Replicas != nil {
		s.brokers = max(s.brokers, *brokers.Spec.Replicas)
	}
	s.users, s.leases = users.Items, leases.Items
	return s, nil
}

// needed reports whether the LogCluster needs any certificate or authenticates clients.
func (s *scope) needed() bool {
	return s.mutualTLS() || s.tlsUsers()
}

// mutualTLS reports whether brokers need peer certificates.
func (s *scope) mutualTLS() bool { return s.cluster.Spec.Secured() }

func (s *scope) tlsUsers() bool {
	return slices.ContainsFunc(s.users, func(u v1alpha1.LogUser) bool {
		return u.Spec.Authentication.Type == v1alpha1.UserTLS
	})
}

// issue writes all Secrets. The CAs are written before the leaves that they issue.
func (s *scope) issue(ctx context.Context) error {
	var err error
	if s.brokersTLS, err = s.Read(ctx, s.cluster,
		v1alpha1.BrokersTLSSecretName(s.cluster.Name)); err != nil {
		return err
	}
	if err := s.advance(ctx); err != nil {
		return err
	}
	data, err := s.leaves(ctx)
	if err != nil {
		return err
	}
	return s.Write(ctx, s.cluster, s.cluster.Name, v1alpha1.BrokersTLSSecretName(s.cluster.Name),
		s.brokersTLS, data)
}

// condition returns condition CertificatesReady. Its reason is the reason of the first fault. A
// lost CA is no fault while the certificates in use are valid, but the message then says what
// clients must do before these certificates expire.
func (s *scope) condition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionCertificatesReady,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCertificatesReady,
		Message: "All certificates are valid."}
	messages := []string{condition.Message}
	if len(s.losses) > 0 {
		condition.Reason = v1alpha1.ReasonCALost
	}
	if len(s.faults) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, s.faults[0].reason
		messages = nil
		for _, fault := range s.faults {
			messages = append(messages, fault.message)
		}
	}
	condition.Message = strings.Join(append(messages, s.losses...), " ")
	return condition
}

// nextExpiry returns the certificate in use that expires first, or nil if there is none. If several
// expire at the same time, it returns the first name, which keeps the status stable.
func (s *scope) nextExpiry() (next *v1alpha1.CertificateExpiry) {
	for _, name := range slices.Sorted(maps.Keys(s.expiries)) {
		if expiry := s.expiries[name]; next == nil || expiry.Before(next.Time.Time) {
			next = &v1alpha1.CertificateExpiry{Certificate: name, Time: metav1.NewTime(expiry)}
		}
	}
	return next
}

// errorsOf returns the first error that is not nil.
func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
