package console

import (
	"errors"
	"net/http"
)

// action is a change that a page offers: the page shows a form (GET), and submitting the form makes
// the change (POST).
type action struct {
	change   string   // name in the audit log, such as "produce record"
	subjects []string // names of the parameters to write to the audit log
	right    Right
	bytesMax int64 // maximum size of a request's body
	form     func(r *http.Request) (view, error)
	do       func(r *http.Request) (location string, err error)
}

// formBytesMax is the maximum size of a form that contains no records.
const formBytesMax = 16 << 10

// get returns the page with the form. If the user lacks the right, the page contains the reason
// instead of the form.
func (c *Console) get(a *action) func(*http.Request) (view, error) {
	return func(r *http.Request) (view, error) {
		v, err := a.form(r)
		v.Refusal = c.refusalOf(r, a.right)
		return v, err
	}
}

// post makes the change that a form requests, and redirects to the page that shows the change. If
// the change fails, the form shows the reason.
func (c *Console) post(a *action) http.HandlerFunc {
	return c.page(func(r *http.Request) (view, error) {
		if err := c.mayDo(r, a.right); err != nil {
			c.audit(r, a.change, err)
			return view{}, err
		}
		r.Body = http.MaxBytesReader(nil, r.Body, a.bytesMax)
		if err := r.ParseForm(); err != nil {
			return view{}, &fault{status: http.StatusRequestEntityTooLarge,
				text: "The request is too large or not a form.", cause: err}
		}
		location, err := a.do(r)
		c.audit(r, a.change, err, a.subjectsOf(r)...)
		if err == nil {
			return view{Location: location}, nil
		}
		v, failed := a.form(r)
		if failed != nil {
			return view{}, errors.Join(err, failed)
		}
		v.Fault, v.Status = err.Error(), statusOfError(err)
		return v, nil
	})
}

// subjectsOf returns the request's parameters for the audit log.
func (a *action) subjectsOf(r *http.Request) (args []any) {
	for _, name := range a.subjects {
		if value := r.PostForm.Get(name); value != "" {
			args = append(args, name, value)
		}
	}
	return args
}

// refusalOf returns the reason why the user of a request lacks the right, or "" if the user has it.
func (c *Console) refusalOf(r *http.Request, right Right) string {
	if err := c.mayDo(r, right); err != nil {
		return err.Error()
	}
	return ""
}

// mayDo returns nil if the user of a request has the right. Without an Authority, it returns nil
// for users of this machine; the brokers authorize the console's requests.
func (c *Console) mayDo(r *http.Request, right Right) error {
	switch {
	case c.opts.Authority != nil:
		return c.permit(r, right)
	case c.local(r):
		return nil
	}
	return &fault{status: http.StatusForbidden, text: "This console " + actionTexts[right] +
		" only if it listens on a loopback address and is opened as localhost and not through a " +
		"proxy, or if it authenticates its users (--auth)."}
}

// actionTexts describes the actions that each right permits.
var actionTexts = map[Right]string{WriteRecords: "produces records",
	WriteGroups: "changes groups", Abort: "aborts transactions", ListUsers: "shows users"}
