(* What theta says of single rows beyond Section 3's list: signs of the Jacobian at a vertex, which
   rows have a small theta, theta as a variance and as a mean deviation. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta Regimes Greedy Closed Words.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Signs.
Variable R : realFieldType.
Implicit Types tau : R.

(* Proof of Theorem 3.2, in the paper's order: alpha = p.x, the entries of J x, and their signs. *)
Theorem vertex_entries n (p x : 'rV[R]_n) tau (q := mass p [set i | x 0 i == 1]) :
  simplex p -> 0 < tau -> vertex x ->
  [/\ dot p x = 2%:R * q - 1, -1 <= dot p x <= 1,
      forall i, app (softmax_jac p tau) x 0 i = p 0 i * (x 0 i - dot p x) / tau &
      forall i, app (softmax_jac p tau) x 0 i != 0 ->
        Num.sg (app (softmax_jac p tau) x 0 i) = x 0 i].
Proof.
move=> sp t0 vx; have [p0 _] := sp; have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
have xE := vertex_signs vx; have [aE ab hin hout] := signs_alpha tau [set i | x 0 i == 1] sp.
have m0 := mass_ge0 [set i | x 0 i == 1] sp; have m1 := mass_le1 [set i | x 0 i == 1] sp.
rewrite -xE in aE hin hout; split; rewrite ?aE // => i.
  by rewrite softmax_jacE aE -/q; ring.
have [iS|iS] := boolP (i \in [set i | x 0 i == 1]).
  rewrite hin // => ne; have -> : x 0 i = 1 by move: iS; rewrite inE => /eqP.
  by apply/gtr0_sg; rewrite lt_def ne andTb; nonneg.
rewrite hout // => ne; have -> : x 0 i = -1.
  by case: (vx i) iS => // e; rewrite inE e eqxx.
by apply/ltr0_sg; rewrite oppr_lt0 lt_def -oppr_eq0 ne andTb; nonneg.
Qed.

(* An optimal subset may be empty, and another one may be optimal beside it. *)
Theorem optimal_subsets_vary :
  exists n (p : 'rV[R]_n) (S : {set 'I_n}), [/\ simplex p, S != set0, bisection p S = theta p &
    bisection p set0 = theta p].
Proof.
have [sp t0] := theta_one_hot R (ord0 : 'I_1).
exists 1%N, (delta_mx 0 ord0), [set ord0]; split=> //; rewrite ?bisection_set0 ?t0 //.
  by apply/set0Pn; exists ord0; rewrite inE.
by rewrite /bisection mass1 mxE eqxx /= subrr !mulr0.
Qed.

(* A token of mass m: theta is at least 4m(1 - m), with equality from 1/2 on. *)
Theorem theta_token n (p : 'rV[R]_n) i : simplex p ->
  4%:R * (p 0 i * (1 - p 0 i)) <= theta p /\
  (2%:R^-1 <= p 0 i -> theta p = 4%:R * (p 0 i * (1 - p 0 i))).
Proof.
move=> sp; split=> [|h]; first by rewrite -(mass1 p i); apply: theta_ge.
rewrite (theta_dominant (kappa := 1 - p 0 i) sp (i := i)); first by ring.
  by ring.
by certf (p 0 i - 2%:R^-1 : R).
Qed.

Theorem theta_moderate n (p : 'rV[R]_n) : simplex p -> pmax p <= 2%:R / 3%:R ->
  8%:R / 9%:R <= theta p.
Proof. by move=> sp; rewrite leNgt; apply: contraNle => /(theta_below sp). Qed.

Lemma half_two_thirds : (2%:R^-1 : R) <= 2%:R / 3%:R.
Proof. by certf (6%:R^-1 : R). Qed.

Corollary theta_half n (p : 'rV[R]_n) : simplex p -> pmax p <= 2%:R^-1 ->
  8%:R / 9%:R <= theta p.
Proof. by move=> sp h; apply: theta_moderate => //; apply: le_trans h half_two_thirds. Qed.

End Signs.

Arguments half_two_thirds {R}.

Section Thresholds.
Variable R : rcfType.
Implicit Types eta : R.

Lemma pmax_form n (p : 'rV[R]_n) : simplex p -> 2%:R^-1 <= pmax p ->
  theta p = 1 - (2%:R * pmax p - 1) ^+ 2.
Proof. by move=> sp /(theta_pmax_half sp) ->; ring. Qed.

Lemma sqrt_third eta : eta <= 8%:R / 9%:R -> 3%:R^-1 <= Num.sqrt (1 - eta).
Proof.
move=> h; have t0 : 0 <= (3%:R^-1 : R) by rewrite invr_ge0 ler0n.
rewrite -(ger0_norm t0) -sqrtr_sqr ler_wsqrtr //.
by certf (8%:R / 9%:R - eta : R).
Qed.

(* theta is small only for rows near one-hot, and exactly for those. *)
Theorem theta_small n (p : 'rV[R]_n) eta : simplex p -> eta <= 8%:R / 9%:R ->
  theta p < eta <-> (1 + Num.sqrt (1 - eta)) / 2%:R < pmax p.
Proof.
move=> sp h; set s := Num.sqrt _; have s3 : 3%:R^-1 <= s := sqrt_third h.
have e0 : 0 <= 1 - eta by certf (9%:R^-1 + (8%:R / 9%:R - eta) : R).
have s2 : s ^+ 2 = 1 - eta by rewrite sqr_sqrtr.
have s0 : 0 <= s by apply: sqrtr_ge0.
have half : (1 + s) / 2%:R < pmax p -> 2%:R^-1 <= pmax p.
  by move=> m; apply: le_trans (ltW m); certf (s / 2%:R : R).
have gap : 2%:R^-1 <= pmax p -> (theta p < eta) = (s < 2%:R * pmax p - 1).
  move=> m; have d0 : 0 <= 2%:R * pmax p - 1 by certf (2%:R * (pmax p - 2%:R^-1) : R).
  rewrite (pmax_form sp m) -[RHS]ltr_sqr ?nnegrE // s2 -[LHS]subr_gt0 -[RHS]subr_gt0.
  by congr (0 < _); ring.
have two : 0 < (2%:R : R) by rewrite ltr0n.
have scale : (s < 2%:R * pmax p - 1) = ((1 + s) / 2%:R < pmax p).
  by rewrite ltr_pdivr_mulr // ltr_subr_addr addrC (mulrC 2%:R).
split=> [lt|m]; last by rewrite gap ?half // scale.
have m23 : 2%:R / 3%:R < pmax p by apply/(theta_below sp); apply: lt_le_trans h.
by rewrite -scale -gap //; apply: le_trans half_two_thirds (ltW m23).
Qed.

Lemma sqrt_half : (1 + Num.sqrt (1 - 2%:R^-1)) / 2%:R = (2%:R + Num.sqrt 2%:R) / 4%:R :> R.
Proof.
have -> : Num.sqrt (1 - 2%:R^-1) = Num.sqrt 2%:R / 2%:R :> R; last by field.
apply/eqP; rewrite -(@eqr_expn2 _ 2) ?sqrtr_ge0 ?divr_ge0 ?sqrtr_ge0 ?ler0n //.
rewrite expr_div_n !sqr_sqrtr ?ler0n //; first by apply/eqP; field.
by certf (2%:R^-1 : R).
Qed.

(* Remark B.2: theta(p)/tau against the constant 1/(2 tau). *)
Theorem theta_against_half n (p : 'rV[R]_n) tau (c := (2%:R + Num.sqrt 2%:R) / 4%:R : R) :
  simplex p -> 0 < tau ->
  [/\ theta p / tau > (2%:R * tau)^-1 <-> pmax p < c,
      theta p / tau = (2%:R * tau)^-1 <-> pmax p = c &
      theta p / tau < (2%:R * tau)^-1 <-> pmax p > c].
Proof.
move=> sp t0; have ti : 0 < tau^-1 by rewrite invr_gt0.
have h89 : (2%:R^-1 : R) <= 8%:R / 9%:R by certf (7%:R / 18%:R : R).
have below : theta p < 2%:R^-1 <-> c < pmax p.
  by have := theta_small sp h89; rewrite sqrt_half.
have s2 : Num.sqrt 2%:R ^+ 2 = 2%:R :> R by rewrite sqr_sqrtr ?ler0n.
have s0 : 0 <= Num.sqrt 2%:R :> R by apply: sqrtr_ge0.
have cE : 2%:R * c - 1 = Num.sqrt 2%:R / 2%:R by rewrite /c; field.
have at_c : theta p = 2%:R^-1 <-> pmax p = c.
  split=> e; last first.
    have m12 : 2%:R^-1 <= pmax p by rewrite e /c; certf (Num.sqrt 2%:R / 4%:R : R).
    by rewrite pmax_form // e cE expr_div_n s2; field.
  have m12 : 2%:R^-1 <= pmax p.
    apply: le_trans half_two_thirds (ltW _); apply/(theta_below sp); rewrite e.
    by apply: (@lt_by_diff _ (7%:R / 18%:R)); [field | rewrite divr_gt0 ?ltr0n].
  have sq : (2%:R * pmax p - 1) ^+ 2 = (2%:R * c - 1) ^+ 2.
    rewrite cE expr_div_n s2; move: e; rewrite pmax_form // => e.
    by apply: (addrI (- 1)); apply: oppr_inj; rewrite !opprD !opprK e; field.
  move: sq => /eqP; rewrite eqr_expn2 // ?cE ?divr_ge0 ?sqrtr_ge0 ?ler0n //; last first.
    by certf (2%:R * (pmax p - 2%:R^-1) : R).
  by rewrite -cE => /eqP /addIr /mulfI ->; rewrite ?pnatr_eq0.
have e : (2%:R * tau)^-1 = 2%:R^-1 / tau by rewrite invfM.
rewrite e !ltr_pmul2r //; split=> //.
  split=> h; rewrite ltNge; apply/negP; rewrite le_eqVlt => /orP[/eqP h'|h'].
  - by move: h; rewrite (at_c.2 (esym h')) ltxx.
  - by move/below: h'; rewrite ltNge (ltW h).
  - by move: h; rewrite -(at_c.1 h') ltxx.
  - by move/below: h'; rewrite ltNge (ltW h).
by split=> [/(mulIf (lt0r_neq0 ti))/at_c|/at_c ->].
Qed.

(* So neither of the two constants bounds the other on all rows. *)
Theorem theta_half_both_ways :
  (exists n, exists2 p : 'rV[R]_n, simplex p & 2%:R^-1 < theta p) /\
  (exists n, exists2 p : 'rV[R]_n, simplex p & theta p < 2%:R^-1).
Proof.
have [u2 t2] := @theta_uniform R 2 isT; have [d1 t1] := theta_one_hot R (ord0 : 'I_1).
split; first by exists 2%N; exists (uniform R 2); rewrite // t2 /= invf_lt1 ?ltr1n ?ltr0n.
by exists 1%N; exists (delta_mx 0 ord0); rewrite // t1 invr_gt0 ltr0n.
Qed.

End Thresholds.

Section Variance.
Variable R : realFieldType.

(* The variance of x under p, and its mean absolute deviation from the mean. *)
Definition variance n (p x : 'rV[R]_n) : R := \sum_i p 0 i * (x 0 i - dot p x) ^+ 2.
Definition deviation n (p x : 'rV[R]_n) : R := \sum_i p 0 i * `|x 0 i - dot p x|.

Lemma variance_quad n (p x : 'rV[R]_n) : simplex p -> variance p x = quad p x.
Proof.
move=> [_ p1]; rewrite quadE /variance.
have expand a : \sum_i p 0 i * (x 0 i - a) ^+ 2 =
    \sum_i p 0 i * x 0 i ^+ 2 - 2%:R * a * (\sum_i p 0 i * x 0 i) + a ^+ 2 * \sum_i p 0 i.
  rewrite !mulr_sumr -sumrB -big_split /=; apply: eq_bigr => i _ /=.
  by ring.
rewrite expand p1 -/(dot p x); move: (dot p x) => a; ring.
Qed.

Lemma dot_affine n (p x : 'rV[R]_n) m h : simplex p ->
  dot p (m *: ones n + h *: x) = m + h * dot p x.
Proof. by move=> [_ p1]; rewrite dotDr !dotZr dotC dot_ones p1 mulr1. Qed.

Lemma variance_affine n (p x : 'rV[R]_n) m h : simplex p ->
  variance p (m *: ones n + h *: x) = h ^+ 2 * variance p x.
Proof.
move=> sp; rewrite /variance dot_affine // mulr_sumr; apply: eq_bigr => i _.
by rewrite rvD !rvZ rv1; ring.
Qed.

(* theta is the largest variance of a function with values in [-1, 1], attained by an optimal
   subset ... *)
Theorem theta_largest_variance n (p : 'rV[R]_n) : simplex p ->
  is_max (fun x => ninf x <= 1) (variance p) (theta p) /\
  forall S, bisection p S = theta p -> variance p (signs R S) = theta p.
Proof.
move=> sp; have [[x x1 xE] H] := theta_variance sp; split=> [|S HS].
  by split=> [|y y1]; [exists x; rewrite ?variance_quad | rewrite variance_quad ?H].
by rewrite variance_quad // -HS; have [_ -> _] := quad_signs S sp.
Qed.

(* ... and, scaled, for values in any interval: Popoviciu's inequality, refined. *)
Theorem popoviciu n (p : 'rV[R]_n) (a b : R) : simplex p -> a <= b ->
  is_max (fun x : 'rV[R]_n => forall i, a <= x 0 i <= b) (variance p)
    (theta p * (b - a) ^+ 2 / 4%:R).
Proof.
move=> sp ab; set m := (a + b) / 2%:R; set h := (b - a) / 2%:R.
have h0 : 0 <= h by rewrite divr_ge0 ?ler0n ?subr_ge0.
have lo : m - h = a by rewrite /m /h; field.
have hi : m + h = b by rewrite /m /h; field.
have scale v : h ^+ 2 * v = v * (b - a) ^+ 2 / 4%:R by rewrite /h; field.
have [[[x x1 xE] H] _] := theta_largest_variance sp; split=> [|y yab].
  exists (m *: ones n + h *: x); last by rewrite variance_affine // xE scale.
  move=> i; rewrite rvD !rvZ rv1 mulr1; have : `|x 0 i| <= 1 by apply: le_trans (ninf_ge x i) x1.
  rewrite ler_norml => /andP[xl xu]; apply/andP; split.
    by rewrite -lo; cert (h * (x 0 i - -1)).
  by rewrite -hi; cert (h * (1 - x 0 i)).
have [h00|hn] := eqVneq h 0.
  have ba : b = a by move/eqP: h00; rewrite mulf_eq0 invr_eq0 pnatr_eq0 orbF subr_eq0 => /eqP.
  have -> : y = a *: ones n + h *: y.
    by apply/rowP => i; have := yab i; rewrite rvD !rvZ rv1 h00 mul0r addr0 mulr1 ba -eq_le => /eqP.
  by rewrite variance_affine // h00 expr0n mul0r ba subrr expr0n mulr0 mul0r.
have -> : y = m *: ones n + h *: (h^-1 *: (y - m *: ones n)).
  by rewrite scalerA divff // scale1r addrC subrK.
rewrite variance_affine // -scale; apply: ler_wpmul2l; first exact: sqr_ge0.
apply: H; apply: ninf_le => // i; have /andP[yl yu] := yab i.
have hp : 0 < h by rewrite lt_def hn.
rewrite rvZ rvB rvZ rv1 mulr1 normrM ger0_norm ?invr_ge0 // ler_pdivr_mull // mulr1 ler_norml.
move: yl yu; rewrite -lo -hi => yl yu; apply/andP; split; first by cert (y 0 i - (m - h)).
by cert (m + h - y 0 i).
Qed.

(* theta is also the largest mean absolute deviation. *)
Theorem theta_largest_deviation n (p : 'rV[R]_n) : simplex p ->
  is_max (fun x => ninf x <= 1) (deviation p) (theta p).
Proof.
move=> sp; have devE x : deviation p x = norm1 (app (softmax_jac p 1) x).
  have [p0 _] := sp; apply: eq_bigr => i _.
  by rewrite softmax_jacE divr1 normrM (ger0_norm (p0 i)).
have [[x x1 xE] H] := jac_norm_max sp ltr01; rewrite divr1 in xE H.
by split=> [|y y1]; [exists x; rewrite ?devE | rewrite devE H].
Qed.

End Variance.

(* Statements put together as the claims have them. *)
Section Bundles.
Variable R : realFieldType.

Theorem definition_theta n (p : 'rV[R]_n) : simplex p ->
  [/\ is_max (fun _ => True) (fun S => 4%:R * (mass p S * (1 - mass p S))) (theta p),
      0 <= theta p <= 1 &
      is_max (fun _ => True) (fun S => 1 - (2%:R * mass p S - 1) ^+ 2) (theta p)].
Proof.
move=> _; split; first exact: theta_is_max.
  by rewrite theta_ge0 theta_le1.
have [[S HS] H] := theta_imbalance p; split; first by exists S.
by move=> T _; exact: H.
Qed.

Theorem laplacian_of_row n (p : 'rV[R]_n) : simplex p ->
  [/\ diag_mx p - outer p p = laplacian (rank_one_weights p),
      forall i, \sum_(k | k != i) rank_one_weights p i k = p 0 i * (1 - p 0 i),
      app (diag_mx p - outer p p) (ones n) = 0,
      forall x, quad p x = \sum_(i < n) \sum_(j < n | (i < j)%N)
        p 0 i * p 0 j * (x 0 i - x 0 j) ^+ 2 &
      forall x, 0 <= quad p x].
Proof.
move=> sp; split=> [|i||x|x].
- exact: jac_laplacian.
- by have [-> _] := laplacian_degree i sp.
- apply/rowP => j; have [_ p1] := sp.
  by rewrite app_subl app_outer rvB app_diag rvZ dotC dot_ones p1 rv1 mxE; ring.
- exact: quad_pairs.
- exact: quad_ge0.
Qed.

Theorem crossing_step n (p : 'rV[R]_n) t i0 k :
  simplex p -> enumeration t -> (k < n)%N -> first_half p t k.+1 ->
  let pk := p 0 (nth i0 t k) in
  [/\ psum p t k < 2%:R^-1, 2%:R^-1 <= psum p t k + pk &
      `|2%:R * psum p t k - 1| <= pk \/ `|2%:R * (psum p t k + pk) - 1| <= pk].
Proof.
move=> sp et kn [h1 h2] pk; have h := crossing et i0 (conj h1 h2) kn.
by rewrite (psumS p et i0 kn) -/pk in h h1; split=> //; apply: h2.
Qed.

Theorem greedy_theorem n (p : 'rV[R]_n) t g :
  simplex p -> descending p t -> greedy_index p t g ->
  [/\ (exists2 k, (0 < k <= n)%N & first_half p t k),
      first_half p t 1 ->
        certificate p t g = theta p /\ theta p = 4%:R * (pmax p * (1 - pmax p)),
      forall k, (1 < k <= n)%N -> first_half p t k ->
        1 - ((2 * k - 1)%:R ^+ 2)^-1 <= certificate p t g /\
        8%:R / 9%:R <= 1 - ((2 * k - 1)%:R ^+ 2)^-1 :> R &
      [/\ theta p - certificate p t g <= 9%:R^-1,
          certificate p t g < 8%:R / 9%:R -> certificate p t g = theta p &
          (#|support p| <= 3)%N -> certificate p t g = theta p]].
Proof.
move=> sp dt hg; have [g1 g2 _] := greedy_gap sp dt hg; split.
- exact: first_half_exists sp dt.1.
- by case=> h _; apply: (greedy_dominant sp dt hg); rewrite -(psum1 sp dt).
- by move=> k; apply: greedy_crossing sp dt _ _ hg.
- by split=> //; apply: greedy_three.
Qed.

Theorem greedy_level_below c : c < 8%:R / 9%:R -> forall n (p : 'rV[R]_n) t g, simplex p ->
  descending p t -> greedy_index p t g -> certificate p t g = c -> theta p = c.
Proof. by move=> c8 n p t g sp dt hg e; have [_ H _] := greedy_gap sp dt hg; rewrite -H e. Qed.

Theorem theta_below_and_ceil n (p : 'rV[R]_n) : simplex p ->
  (theta p < 8%:R / 9%:R <-> 2%:R / 3%:R < pmax p) /\
  forall r, (0 < r)%N -> (r - 1)%:R < (2%:R * pmax p)^-1 <= r%:R ->
    1 - ((2 * r - 1)%:R ^+ 2)^-1 <= theta p.
Proof.
move=> sp; split; first exact: theta_below.
move=> r r0 /andP[h _]; apply: theta_ge_ceil => //.
have m0 : 0 < 2%:R * pmax p by rewrite mulr_gt0 ?ltr0n ?pmax_gt0.
by rewrite mulrC -ltr_pdivl_mulr // div1r.
Qed.

Theorem theta_ceil_tight r : (0 < r)%N ->
  theta (uniform R (2 * r - 1)) = 1 - ((2 * r - 1)%:R ^+ 2)^-1 /\
  ((r - 1)%:R : R) < (2%:R * pmax (uniform R (2 * r - 1)))^-1 <= r%:R.
Proof.
move=> r0; have [-> ->] := theta_ceil_attained R r0; split=> //.
have two : 0 < (2%:R : R) by rewrite ltr0n.
have e : (2 * r - 1 = (2 * (r - 1)).+1)%N.
  by case: r r0 => // r _; rewrite mulnS addSn !subSS !subn0.
rewrite invfM invrK e ltr_pdivl_mull // ler_pdivr_mull // -!natrM ltr_nat ler_nat ltnSn /=.
by rewrite -e leq_subr.
Qed.

Theorem one_key (p : 'rV[R]_1) : simplex p -> theta p = 0.
Proof.
move=> sp; rewrite (theta_zero sp); exists 0; apply/rowP => i; rewrite !ord1 mxE eqxx /=.
by case: sp => _; rewrite big_ord1.
Qed.

Theorem alternating_chain (a : R) l m :
  \prod_(l <= k < l + m.*2) (1 + (-1) ^+ k * a) = (1 - a ^+ 2) ^+ m /\
  \prod_(l <= k < l + m.*2.+1) (1 + (-1) ^+ k * a) = (1 - a ^+ 2) ^+ m * (1 + (-1) ^+ l * a).
Proof.
have shift n : \prod_(l <= k < l + n) (1 + (-1) ^+ k * a) = alternating ((-1) ^+ l * a) n.
  rewrite -{1}[l]add0n big_addn addKn big_mkord; apply: eq_bigr => k _.
  by rewrite exprD mulrA.
have sq : ((-1) ^+ l * a) ^+ 2 = a ^+ 2.
  by rewrite exprMn -exprM mulnC exprM sqrrN expr1n expr1n mul1r.
by rewrite !shift alternating_even alternating_odd sq.
Qed.

End Bundles.

Lemma decay_range (R : rcfType) (a : R) : (0 < `|a| < Num.sqrt 2%:R) = (`|1 - a ^+ 2| < 1).
Proof.
have a2 : a ^+ 2 = `|a| ^+ 2 by rewrite real_normK ?num_real.
have s2 : 0 <= Num.sqrt 2%:R :> R by apply: sqrtr_ge0.
rewrite [RHS]ltr_norml a2; have -> : (`|a| < Num.sqrt 2%:R) = (`|a| ^+ 2 < 2%:R).
  by rewrite -[LHS]ltr_sqr ?nnegrE // sqr_sqrtr ?ler0n.
have -> : (0 < `|a|) = (0 < `|a| ^+ 2) by rewrite -a2 normr_gt0 exprn_even_gt0.
move: (`|a| ^+ 2) => b; rewrite andbC; congr (_ && _).
  by rewrite -[RHS]subr_gt0 -[LHS]subr_gt0; congr (0 < _); ring.
by rewrite -[RHS]subr_gt0 -[LHS]subr_gt0; congr (0 < _); ring.
Qed.
