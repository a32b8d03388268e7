package moments

// Relabel moves the statistics of class c to class to[c], for every class; a negative to[c] drops a class without rows.
// No two classes with rows may go to one.
func (s *Set) Relabel(to []int) {
	slots := 1
	for _, c := range to {
		slots = max(slots, c+2)
	}
	weight, sum := make([]float64, slots), make([][]float64, slots)
	second := s.second
	if s.perClass {
		second = append(second[:0:0], second...)
		clear(second)
	}
	for k, v := range s.weight {
		at := 0
		if k > 0 {
			if at = to[k-1] + 1; at == 0 {
				continue
			}
		}
		weight[at], sum[at] = v, s.sum[k]
		if s.perClass && k < len(s.second) {
			for len(second) <= at {
				second = append(second, nil)
			}
			second[at] = s.second[k]
		}
	}
	s.weight, s.sum, s.second = weight, sum, second
}
