package loguser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/controllers/secrets"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/pki"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=heartwood.dev,resources=logusers,verbs=get;list;watch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logusers/status,verbs=get;patch
// +kubebuilder:rbac:groups=heartwood.dev,resources=logusers/finalizers,verbs=update

const (
	// checkInterval is the interval at which a certificate is checked for its renewal.
	checkInterval = time.Hour
	// providedInterval is the default of Reconciler.ProvidedInterval.
	providedInterval = 30 * time.Second
)

// Reconciler creates the credentials of LogUsers.
type Reconciler struct {
	secrets.Store
	Events conditions.Recorder
	Now    func(namespace string) time.Time
	// ProvidedInterval is the interval at which the Secrets of passwordFrom are read, and the Secrets
	// of listeners until they exist; default 30 s. A watch would cache all Secrets of all namespaces.
	ProvidedInterval time.Duration
}

// Setup adds the controller to a manager. A LogUser's credentials depend on the LogCluster's
// listeners, on the CAs, and on the addresses in the brokers' Leases.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.ProvidedInterval = cmp.Or(r.ProvidedInterval, providedInterval)
	changed := builder.WithPredicates(predicate.Or(watch.SpecChanged,
		predicate.AnnotationChangedPredicate{}))
	return watch.NewController(mgr, "loguser", 4).
		For(&v1alpha1.LogUser{}, changed).
		Owns(&corev1.Secret{}).
		Watches(&v1alpha1.LogCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(watch.SpecChanged)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofCA)).
		Watches(&coordinationv1.Lease{}, watch.Coalesce(watch.ClusterDelay, r.ofLease),
			builder.WithPredicates(watch.EndpointsChanged)).
		Complete(r)
}

// ofCluster maps a LogCluster to its LogUsers.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	users := &v1alpha1.LogUserList{}
	if err := r.List(ctx, users, client.InNamespace(cluster.GetNamespace()),
		client.MatchingFields{index.ByCluster: cluster.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the users of a cluster")
	}
	return watch.Requests(users.Items)
}

// ofCA maps a Secret with a CA of a LogCluster to all LogUsers of this LogCluster.
func (r *Reconciler) ofCA(ctx context.Context, secret client.Object) []reconcile.Request {
	cluster := secret.GetLabels()[v1alpha1.LabelCluster]
	if cluster == "" || !slices.Contains([]string{v1alpha1.UsersCASecretName(cluster),
		v1alpha1.CACertSecretName(cluster), v1alpha1.BrokersTLSSecretName(cluster)},
		secret.GetName()) {
		return nil
	}
	return r.ofCluster(ctx, &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.GetNamespace(), Name: cluster}})
}

// ofLease maps a broker's Lease to the LogUsers of its LogCluster.
func (r *Reconciler) ofLease(ctx context.Context, lease client.Object) []reconcile.Request {
	return r.ofCluster(ctx, &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: lease.GetNamespace(), Name: lease.GetLabels()[v1alpha1.LabelCluster]}})
}

// refusal is an error that the user must correct. Condition Ready reports it.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

func refuse(reason, format string, values ...any) error {
	return &refusal{reason, fmt.Sprintf(format, values...)}
}

// scope is one reconciliation of a LogUser.
type scope struct {
	*Reconciler
	user    *v1alpha1.LogUser
	cluster *v1alpha1.LogCluster
	now     time.Time
	status  v1alpha1.LogUserStatus
	lost    string // sentences about a lost Secret, with a leading space; "" if no Secret was lost
	// again is the time after which the LogUser must be reconciled again; 0 if an event will trigger
	// it.
	again time.Duration
}

// reconcileWithin ensures that the LogUser is reconciled again within the given time.
func (s *scope) reconcileWithin(limit time.Duration) {
	if s.again == 0 || limit < s.again {
		s.again = limit
	}
}

// Reconcile writes a LogUser's Secret and status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	before := &v1alpha1.LogUser{}
	if err := r.Get(ctx, req.NamespacedName, before); err != nil ||
		!before.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{Reconciler: r, user: before, now: r.Now(before.Namespace)}
	s.status = v1alpha1.LogUserStatus{ObservedGeneration: before.Generation,
		ACLs:       int32(len(before.Spec.ACLs)),
		Conditions: before.DeepCopy().Status.Conditions}
	condition := conditions.Ready("The credentials are in the Secret, and the ACLs are valid.")
	if before.Spec.Authentication.Type == v1alpha1.UserExternal {
		condition.Message = "The ACLs are valid."
	}
	if err := s.write(ctx); err != nil {
		var refused *refusal
		if !errors.As(err, &refused) {
			return ctrl.Result{}, err
		}
		condition = conditions.NotReady(refused.reason, refused.message)
		s.reconcileWithin(s.ProvidedInterval)
	}
	condition.Message += s.lost
	condition.ObservedGeneration = before.Generation
	meta.SetStatusCondition(&s.status.Conditions, condition)
	conditions.SetProgress(&s.status.Conditions, before.Generation)
	if !equality.Semantic.DeepEqual(before.Status, s.status) {
		after := before.DeepCopy()
		after.Status = s.status
		if err := r.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		r.Events.ReadyChanged(after, before.Status.Conditions, after.Status.Conditions)
	}
	return ctrl.Result{RequeueAfter: s.again}, nil
}

// write checks the LogUser and writes its Secret.
func (s *scope) write(ctx context.Context) error {
	if err := s.checkPrincipal(ctx); err != nil {
		return err
	}
	s.cluster = &v1alpha1.LogCluster{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.user.Namespace, Name: s.user.Spec.Cluster},
		s.cluster)
	if apierrors.IsNotFound(err) {
		return refuse(v1alpha1.ReasonClusterNotFound,
			"LogCluster %s does not exist in namespace %s: create it, or correct spec.cluster.",
			s.user.Spec.Cluster, s.user.Namespace)
	} else if err != nil {
		return err
	}
	name := v1alpha1.UserSecretName(s.user.Name)
	read, err := s.Read(ctx, s.user, name)
	if foreign := owned.AsForeign(err); foreign != nil {
		if s.user.Spec.Authentication.Type == v1alpha1.UserExternal {
			return nil // no Secret needed
		}
		return refuse(v1alpha1.ReasonSecretNameTaken, "%s", foreign.Message())
	} else if err != nil {
		return err
	}
	if s.user.Spec.Authentication.Type == v1alpha1.UserExternal {
		return s.Remove(ctx, read)
	}
	data, listenerError, err := s.secret(ctx, read.Data)
	if err != nil {
		return err
	}
	if err := s.Write(ctx, s.user, s.user.Spec.Cluster, name, read, data); err != nil {
		return err
	}
	if s.lost != "" && !hasState(read.Data) {
		s.Events.Warning(s.user, v1alpha1.ReasonSecretLost, "MakeCredentials", "%s",
			strings.TrimSpace(s.lost))
	}
	s.status.SecretName = name
	return listenerError
}

// checkPrincipal refuses a LogUser if an older LogUser has the same principal. If both have the
// same age, their names decide.
func (s *scope) checkPrincipal(ctx context.Context) error {
	same := &v1alpha1.LogUserList{}
	if err := s.List(ctx, same, client.InNamespace(s.user.Namespace),
		client.MatchingFields{index.ByPrincipal: index.PrincipalKey(s.user)}); err != nil {
		return fmt.Errorf("list users: %w", err)
	}
	for i := range same.Items {
		if older(&same.Items[i], s.user) {
			return refuse(v1alpha1.ReasonUserNameTaken, "LogUser %s has the same principal: "+
				"delete one of the two, or choose another userName.", same.Items[i].Name)
		}
	}
	return nil
}

// older reports whether a takes precedence over b. Both can be the same LogUser.
func older(a, b *v1alpha1.LogUser) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name)) < 0
}

// secret returns the content of the LogUser's Secret. listenerError describes why clients cannot
// connect with it yet.
func (s *scope) secret(ctx context.Context,
	present map[string][]byte) (data map[string][]byte, listenerError, err error) {
	user := credentials.User{Name: s.user.PrincipalName()}
	before, err := s.before(ctx, present)
	if err != nil {
		return nil, nil, err
	}
	after := state{Rotated: s.user.Annotations[v1alpha1.AnnotationRotate]}
	if s.user.Spec.Authentication.Type == v1alpha1.UserScram {
		user.Password, after, err = s.password(ctx, string(present[credentials.KeyPassword]),
			before)
	} else {
		user.Certificate, user.Key, err = s.certificate(ctx, present, before, after)
	}
	if err != nil {
		return nil, nil, err
	}
	s.status.Rotated = after.Rotated
	s.keepLoss(before, &after)
	endpoint, listenerError, err := s.endpoint(ctx, present)
	if err != nil {
		return nil, nil, err
	}
	data = credentials.Files(user, endpoint, credentials.MountPath)
	if data[keyState], err = json.Marshal(after); err != nil {
		return nil, nil, err
	}
	return data, listenerError, nil
}

// password returns the password, and the state with the password's verifiers.
func (s *scope) password(ctx context.Context, present string,
	before state) (string, state, error) {
	given := ""
	if from := s.user.Spec.Authentication.PasswordFrom; from != nil {
		value, found, err := s.Key(ctx, s.user.Namespace, *from)
		if err != nil {
			return "", state{}, err
		}
		if !found {
			return "", state{}, refuse(v1alpha1.ReasonPasswordNotFound,
				"Secret %s with the key %s of passwordFrom does not exist: create it.", from.Name,
				from.Key)
		}
		if given = string(value); given == "" {
			return "", state{}, refuse(v1alpha1.ReasonInvalidPassword,
				"The password in Secret %s is empty: correct the Secret.", from.Name)
		}
		s.reconcileWithin(s.ProvidedInterval)
	}
	password, after, err := rotatePassword(present, before, given,
		s.user.Annotations[v1alpha1.AnnotationRotate], s.now)
	if err != nil {
		return "", state{}, refuse(v1alpha1.ReasonInvalidPassword,
			"The password cannot be used: %v. Correct the Secret of passwordFrom.", err)
	}
	if _, next := credentials.Prune(after.Verifiers, s.now); !next.IsZero() {
		s.reconcileWithin(max(next.Sub(s.now), time.Second))
	}
	return password, after, nil
}

// certificate returns the client certificate and its private key.
func (s *scope) certificate(ctx context.Context, present map[string][]byte,
	before, after state) (certificate, key []byte, err error) {
	name := v1alpha1.UsersCASecretName(s.cluster.Name)
	data, err := s.Read(ctx, s.cluster, name)
	if err != nil {
		return nil, nil, err
	}
	if len(data.Data) == 0 {
		return nil, nil, refuse(v1alpha1.ReasonCertificatePending,
			"The CA in Secret %s is being created.", name)
	}
	authority, err := pki.Decode(data.Data)
	if err != nil {
		return nil, nil, refuse(v1alpha1.ReasonCertificatePending, "The CA in Secret %s cannot be "+
			"decoded. Condition %s of LogCluster %s says what to do.", name,
			v1alpha1.ConditionCertificatesReady, s.cluster.Name)
	}
	brokersTLS, err := s.Read(ctx, s.cluster, v1alpha1.BrokersTLSSecretName(s.cluster.Name))
	if err != nil {
		return nil, nil, err
	}
	if !authority.PublishedIn(brokersTLS.Data[v1alpha1.KeyUsersCA]) {
		return nil, nil, refuse(v1alpha1.ReasonCertificatePending,
			"The CA in Secret %s is being published.", name)
	}
	request := pki.Request{CommonName: s.user.PrincipalName(), Client: true}
	leaf, _ := pki.ParseLeaf(present[credentials.KeyCertificate], present[credentials.KeyKey])
	if authority.Due(leaf, request, s.now) != "" || before.Rotated != after.Rotated {
		if leaf, err = authority.Issue(request, s.now); err != nil {
			return nil, nil, err
		}
	}
	s.status.ExpiryTime = new(metav1.NewTime(leaf.Certificate.NotAfter))
	s.reconcileWithin(checkInterval)
	return leaf.Chain, leaf.Key, nil
}
