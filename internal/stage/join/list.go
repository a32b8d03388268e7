package join

// links makes a value a member of a list without a separate allocation.
type links[T any] struct{ prev, next *T }

func (l *links[T]) at() *links[T] { return l }

// list is a doubly linked list, oldest first.
type list[T any, M interface {
	*T
	at() *links[T]
}] struct{ head, tail *T }

func (l *list[T, M]) push(t *T) {
	M(t).at().prev = l.tail
	if l.tail == nil {
		l.head = t
	} else {
		M(l.tail).at().next = t
	}
	l.tail = t
}

func (l *list[T, M]) remove(t *T) {
	at := M(t).at()
	if at.prev == nil {
		l.head = at.next
	} else {
		M(at.prev).at().next = at.next
	}
	if at.next == nil {
		l.tail = at.prev
	} else {
		M(at.next).at().prev = at.prev
	}
	at.prev, at.next = nil, nil
}
