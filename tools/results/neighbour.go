package main

import (
	"runtime"
	"slices"
	"sync"
)

// wrongByDim counts, for each number d of leading columns, the queries whose nearest reference in those columns has
// another class; ties go to the earlier reference. A squared distance grows by one term from d to d + 1, so all counts
// together cost as much as the last one. ref and query have width columns.
func wrongByDim(ref []float64, refY []int, query []float64, queryY []int, width int) []int {
	return countByDim(ref, refY, query, queryY, width, false)
}

// wrongLeftOut returns wrongByDim of each row against all others.
func wrongLeftOut(rows []float64, y []int, width int) []int {
	return countByDim(rows, y, rows, y, width, true)
}

func countByDim(ref []float64, refY []int, query []float64, queryY []int, width int, leaveOut bool) []int {
	workers := runtime.GOMAXPROCS(0)
	counts := make([][]int, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			wrong, distance := make([]int, width), make([]float64, len(refY))
			for q := w; q < len(queryY); q += workers {
				clear(distance)
				for d := range width {
					v, nearest := query[q*width+d], -1
					for r := range distance {
						diff := ref[r*width+d] - v
						distance[r] += diff * diff
						if (nearest < 0 || distance[r] < distance[nearest]) && !(leaveOut && r == q) {
							nearest = r
						}
					}
					if refY[nearest] != queryY[q] {
						wrong[d]++
					}
				}
			}
			counts[w] = wrong
		})
	}
	wait.Wait()
	total := make([]int, width)
	for _, c := range counts {
		for d, n := range c {
			total[d] += n
		}
	}
	return total
}

// least returns the index of the first smallest number: the lowest dimension with the fewest errors.
func least(counts []int) int {
	return slices.Index(counts, slices.Min(counts))
}
