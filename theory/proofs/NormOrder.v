(* The same-norm bounds beside theta: |J|_{r->r} <= theta/(2 tau) for every r in [1, infinity]. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp interval.
From mathcomp Require Import ring.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype derive sequences exp.
From AttentionSensitivity Require Import Base Theta Regimes DiffTools Softmax.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section RowSums.
Variable R : realFieldType.
Variables (n : nat) (p : 'rV[R]_n) (tau : R).
Hypotheses (sp : simplex p) (t0 : 0 < tau).

Let J := softmax_jac p tau.

Lemma jac_symmetric i j : J i j = J j i.
Proof.
rewrite !softmax_jac_entry eq_sym; case: eqP => [->|] //.
by rewrite (mulrC (p 0 i)).
Qed.

(* The l1 norm of a row of J. *)
Lemma jac_row_sum i : \sum_j `|J i j| = 2%:R * (p 0 i * (1 - p 0 i)) / tau.
Proof.
have [p0 _] := sp; have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
have pi1 := simplex_le1 i sp.
rewrite (bigD1 i) //= softmax_jac_entry eqxx mulr1n.
rewrite (eq_bigr (fun j => tau^-1 * (p 0 i * p 0 j))) => [|j ji].
  rewrite -!mulr_sumr sum_others // ger0_norm; first by ring.
  have pi0 := p0 i; have -> : p 0 i - p 0 i * p 0 i = p 0 i * (1 - p 0 i) by ring.
  by nonneg.
rewrite softmax_jac_entry eq_sym (negbTE ji) mulr0n add0r mulrN normrN ger0_norm //.
by nonneg.
Qed.

Lemma jac_row_sum_le i : \sum_j `|J i j| <= theta p / (2%:R * tau).
Proof.
rewrite jac_row_sum; have := theta_ge p [set i]; rewrite /bisection mass1 => h.
have ti : 0 <= (2%:R * tau)^-1 by rewrite invr_ge0 mulr_ge0 ?ler0n // ltW.
have tn : tau != 0 by rewrite gt_eqF.
apply: le_trans (ler_wpmul2r ti h); rewrite le_eqVlt; apply/orP; left; apply/eqP.
by field.
Qed.

Lemma jac_col_sum_le j : \sum_i `|J i j| <= theta p / (2%:R * tau).
Proof.
by rewrite (eq_bigr (fun i => `|J j i|)) ?jac_row_sum_le // => i _; rewrite jac_symmetric.
Qed.

(* r = infinity. *)
Theorem jac_inf_inf : opnorm_le (@ninf R n) (@ninf R n) (app J) (theta p / (2%:R * tau)).
Proof.
have c0 : 0 <= theta p / (2%:R * tau).
  by rewrite mulr_ge0 ?theta_ge0 // invr_ge0 mulr_ge0 ?ler0n // ltW.
split=> // x; apply: ninf_le => [|i]; first by rewrite mulr_ge0 ?ninf_ge0.
rewrite appE; apply: le_trans (ler_norm_sum _ _ _) _.
apply: le_trans (_ : (\sum_j `|J i j|) * ninf x <= _); last first.
  by rewrite ler_wpmul2r ?ninf_ge0 // jac_row_sum_le.
by rewrite mulr_suml; apply: ler_sum => j _; rewrite normrM ler_wpmul2l // ninf_ge.
Qed.

(* r = 1. *)
Theorem jac_1_1 : opnorm_le (@norm1 R n) (@norm1 R n) (app J) (theta p / (2%:R * tau)).
Proof.
have [c0 _] := jac_inf_inf; split=> // x.
apply: le_trans (_ : \sum_i \sum_j `|J i j| * `|x 0 j| <= _).
  apply: ler_sum => i _; rewrite appE; apply: le_trans (ler_norm_sum _ _ _) _.
  by apply: ler_sum => j _; rewrite normrM.
rewrite exchange_big mulr_sumr; apply: ler_sum => j _.
by rewrite -mulr_suml ler_wpmul2r // jac_col_sum_le.
Qed.

(* Equality for r = 1 and infinity where some p_i >= 1/2. *)
Theorem jac_ordering_dominant i : 2%:R^-1 <= p 0 i ->
  is_opnorm (@ninf R n) (@ninf R n) (app J) (theta p / (2%:R * tau)) /\
  is_opnorm (@norm1 R n) (@norm1 R n) (app J) (theta p / (2%:R * tau)).
Proof.
move=> pi2; have [p0 _] := sp; have tn : tau != 0 by rewrite gt_eqF.
have tE : theta p / (2%:R * tau) = \sum_j `|J i j|.
  rewrite (theta_dominant (kappa := 1 - p 0 i) (i := i)) //; first by rewrite jac_row_sum; field.
    by ring.
  by certf (p 0 i - 2%:R^-1).
have n0 := simplex_gt0 sp; split.
  have x1 : ninf (signs R [set i]) = 1 by apply: ninf_vertex n0 (@signs_vertex _ _ _).
  apply: (is_opnorm_attained (x := signs R [set i]) jac_inf_inf); rewrite x1 ?ltr01 // mulr1.
  have [_ H] := jac_inf_inf; apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: le_trans (H _) _; rewrite x1 mulr1.
  apply: le_trans (ninf_ge _ i); have [_ _ hin _] := signs_alpha tau [set i] sp.
  rewrite hin ?set11 // mass1 tE jac_row_sum; apply: le_trans (ler_norm _).
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
have d1 : norm1 (delta_mx 0 i : 'rV[R]_n) = 1.
  rewrite /norm1 (bigD1 i) //= mxE !eqxx normr1 big1 ?addr0 // => j /negbTE ji.
  by rewrite mxE ji andbF normr0.
apply: (is_opnorm_attained (x := delta_mx 0 i) jac_1_1); rewrite d1 ?ltr01 // mulr1 tE.
apply: eq_bigr => j _; rewrite appE (bigD1 i) //= [delta_mx _ _ _ _]mxE !eqxx mulr1.
rewrite big1 ?addr0 1?jac_symmetric // => k /negbTE ki.
by rewrite [delta_mx _ _ _ _]mxE ki andbF mulr0.
Qed.

End RowSums.

(* Two tokens: one direction is an eigenvector, whatever the row. *)
Lemma two_tokens (R : realFieldType) (p : 'rV[R]_2) tau : simplex p -> 0 < tau ->
  theta p = 4%:R * (p 0 0 * p 0 1) /\
  app (softmax_jac p tau) (signs R [set (0 : 'I_2)]) =
    (theta p / (2%:R * tau)) *: signs R [set (0 : 'I_2)].
Proof.
move=> sp t0; have [p0 p1] := sp.
have p01 : p 0 0 + p 0 1 = 1.
  by rewrite -p1 big_ord_recl big_ord1; congr (_ + p 0 _); exact: val_inj.
have p1E : p 0 1 = 1 - p 0 0 by apply/eqP; rewrite eq_sym subr_eq addrC p01.
have tE : theta p = 4%:R * (p 0 0 * p 0 1).
  have [le|/ltW ge] := leP 2%:R^-1 (p 0 0).
    rewrite (theta_dominant (kappa := p 0 1) (i := 0) sp).
    - by rewrite p1E; ring.
    - by rewrite p1E; ring.
    - by rewrite p1E; certf (p 0 0 - 2%:R^-1).
  by rewrite (theta_dominant (kappa := p 0 0) (i := 1) sp) // p1E.
split=> //; have tn : tau != 0 by rewrite gt_eqF.
have [_ _ hin hout] := signs_alpha tau [set (0 : 'I_2)] sp.
apply/rowP => i; rewrite rvZ; case: (boolP (i \in [set (0 : 'I_2)])) => iS.
  rewrite hin // mass1 tE -p1E mxE iS mulr1; move: iS; rewrite inE => /eqP ->.
  by move: (p 0 0) (p 0 1) => a b; field.
rewrite hout // mass1 tE mxE (negbTE iS); have -> : i = 1.
  by apply/val_inj; move: iS; rewrite inE -val_eqE /=; case: i => [[|[|]]].
by move: (p 0 0) (p 0 1) => a b; field.
Qed.

(* Powers of nonnegative reals. *)
Section Power.
Variable R : realType.
Implicit Types (a b m r s t : R).

Definition powr a r : R := if a == 0 then 0 else expR (r * ln a).

Lemma powr0 r : powr 0 r = 0. Proof. by rewrite /powr eqxx. Qed.

Lemma powrE a r : 0 < a -> powr a r = expR (r * ln a).
Proof. by move=> a0; rewrite /powr gt_eqF. Qed.

Lemma powr_gt0 a r : 0 < a -> 0 < powr a r.
Proof. by move=> a0; rewrite powrE ?expR_gt0. Qed.

Lemma powr_ge0 a r : 0 <= a -> 0 <= powr a r.
Proof.
by rewrite le_eqVlt => /predU1P[<-|/powr_gt0/ltW]; rewrite ?powr0.
Qed.

Lemma powr1 a : 0 <= a -> powr a 1 = a.
Proof.
rewrite le_eqVlt => /predU1P[<-|a0]; first by rewrite powr0.
by rewrite powrE // mul1r lnK // posrE.
Qed.

Lemma powrM a b r : 0 <= a -> 0 <= b -> powr (a * b) r = powr a r * powr b r.
Proof.
rewrite le_eqVlt => /predU1P[<-|a0]; first by rewrite mul0r powr0 mul0r.
rewrite le_eqVlt => /predU1P[<-|b0]; first by rewrite mulr0 powr0 mulr0.
by rewrite !powrE ?mulr_gt0 // lnM ?posrE // mulrDr expRD.
Qed.

Lemma powrr a r s : 0 <= a -> powr (powr a r) s = powr a (r * s).
Proof.
rewrite le_eqVlt => /predU1P[<-|a0]; first by rewrite !powr0.
by rewrite [LHS]powrE ?powr_gt0 // !powrE // expK mulrA (mulrC s).
Qed.

Lemma powr_add a r s : 0 < a -> powr a (r + s) = powr a r * powr a s.
Proof. by move=> a0; rewrite !powrE // mulrDl expRD. Qed.

Lemma ler_powr a b r : 0 <= r -> 0 <= a -> a <= b -> powr a r <= powr b r.
Proof.
move=> r0; rewrite le_eqVlt => /predU1P[<- b0|a0 ab]; first by rewrite powr0 powr_ge0.
have b0 := lt_le_trans a0 ab.
by rewrite !powrE // ler_expR ler_wpmul2l // ler_ln ?posrE.
Qed.

Lemma expR_tangent (x : R) : 1 + x <= expR x.
Proof.
have [x0|x0] := leP 0 x; first exact: expR_ge1Dx.
have [t] := @MVT R expR expR x 0 x0 (fun t _ => is_derive_expR t)
  (continuous_subspaceT (@continuous_expR R)).
rewrite in_itv /= => /andP[_ t0]; rewrite expR0 sub0r => e.
have t1 : expR t <= 1 by rewrite -expR0 ler_expR ltW.
apply: (@le_by_diff _ ((1 - expR t) * - x)); last by rewrite mulr_ge0 ?subr_ge0 // oppr_ge0 ltW.
have -> : expR x = 1 - expR t * - x by rewrite -e opprB addrC subrK.
by move: (expR t) => E; ring.
Qed.

(* The weighted mean of a and 1. *)
Lemma powr_mean a s : 0 < a -> 0 <= s <= 1 -> powr a s <= s * a + (1 - s).
Proof.
move=> a0 /andP[s0 s1]; rewrite powrE //; set G := expR _; have G0 : 0 < G := expR_gt0 _.
have h1 : s * (1 + (1 - s) * ln a) <= s * (a / G).
  rewrite ler_wpmul2l //; apply: le_trans (expR_tangent _) _.
  by rewrite mulrBl mul1r expRB lnK ?posrE.
have h2 : (1 - s) * (1 - s * ln a) <= (1 - s) * G^-1.
  by rewrite ler_wpmul2l ?subr_ge0 // -expRN; apply: expR_tangent.
have : 1 <= (s * a + (1 - s)) / G.
  have -> : (s * a + (1 - s)) / G = s * (a / G) + (1 - s) * G^-1 by rewrite mulrDl mulrA.
  apply: le_trans (ler_add h1 h2); rewrite le_eqVlt; apply/orP; left; apply/eqP.
  by move: (ln a) => l; ring.
by rewrite ler_pdivl_mulr // mul1r.
Qed.

(* The tangent of t^r at m lies below it. *)
Lemma powr_tangent t m r : 0 <= t -> 0 < m -> 1 <= r ->
  powr m r + r * powr m (r - 1) * (t - m) <= powr t r.
Proof.
move=> t0 m0 r1; have r0 : 0 < r := lt_le_trans ltr01 r1.
have pm : powr m r = m * powr m (r - 1).
  by rewrite -{2}(powr1 (ltW m0)) -powr_add // addrC subrK.
have q0 : 0 < powr m (r - 1) := powr_gt0 _ m0.
have tE : t = m * (t / m) by rewrite mulrC divfK // gt_eqF.
have y0 : 0 <= t / m by rewrite divr_ge0 // ltW.
have key : 1 + r * (t / m - 1) <= powr (t / m) r.
  move: (t / m) y0 => y y0; have [neg|pos] := leP (1 + r * (y - 1)) 0.
    by apply: le_trans neg _; exact: powr_ge0.
  have s01 : 0 <= r^-1 <= 1 by rewrite invr_ge0 (ltW r0) invf_le1.
  have h := powr_mean pos s01.
  have yE : r^-1 * (1 + r * (y - 1)) + (1 - r^-1) = y.
    by move: (gt_eqF r0) => /negbT rn; field.
  rewrite yE in h; have := ler_powr (ltW r0) (powr_ge0 _ (ltW pos)) h.
  by rewrite powrr ?(ltW pos) // mulVf ?gt_eqF // powr1 // ltW.
rewrite {2}tE powrM ?(ltW m0) // pm.
have := ler_wpmul2l (ltW (mulr_gt0 m0 q0)) key; apply: le_trans.
rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite {1}tE.
by move: (t / m) (powr m _) => y q; ring.
Qed.

(* The l_r norm of a row. *)
Definition psum_pow n r (x : 'rV[R]_n) : R := \sum_i powr `|x 0 i| r.
Definition normr_ n r (x : 'rV[R]_n) : R := powr (psum_pow r x) r^-1.

Lemma psum_pow_ge0 n r (x : 'rV[R]_n) : 0 <= psum_pow r x.
Proof. by apply: sumr_ge0 => i _; rewrite powr_ge0. Qed.

(* A power of a weighted sum. *)
Lemma powr_weighted n (w y : 'I_n -> R) r (W := \sum_j w j) : 1 <= r ->
  (forall j, 0 <= w j) -> (forall j, 0 <= y j) ->
  powr (\sum_j w j * y j) r <= powr W (r - 1) * \sum_j w j * powr (y j) r.
Proof.
move=> r1 w0 y0; have W0 : 0 <= W by apply: sumr_ge0.
have r0 : 0 < r := lt_le_trans ltr01 r1.
have rhs0 : 0 <= powr W (r - 1) * \sum_j w j * powr (y j) r.
  by rewrite mulr_ge0 ?powr_ge0 // sumr_ge0 // => j _; rewrite mulr_ge0 ?powr_ge0.
have S0 : 0 <= \sum_j w j * y j by apply: sumr_ge0 => j _; rewrite mulr_ge0.
move: S0; rewrite le_eqVlt => /predU1P[<-|S0]; first by rewrite powr0.
have Wp : 0 < W.
  rewrite lt_def W0 andbT; apply/eqP => Wz; move: S0; rewrite big1 ?ltxx // => j _.
  have /eqP := Wz; rewrite psumr_eq0 // => /allP /(_ j (mem_index_enum _)) /eqP ->.
  by rewrite mul0r.
pose m := (\sum_j w j * y j) / W; have m0 : 0 < m by rewrite divr_gt0.
have SE : \sum_j w j * y j = W * m by rewrite mulrC divfK // gt_eqF.
have : W * powr m r <= \sum_j w j * powr (y j) r.
  apply: le_trans (_ : \sum_j w j * (powr m r + r * powr m (r - 1) * (y j - m)) <= _).
    rewrite (eq_bigr (fun j => w j * (powr m r - r * powr m (r - 1) * m) +
      r * powr m (r - 1) * (w j * y j))) => [|j _]; last by ring.
    rewrite big_split /= -mulr_suml -mulr_sumr SE -/W.
    by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
  by apply: ler_sum => j _; rewrite ler_wpmul2l // powr_tangent.
have WE : powr W r = powr W (r - 1) * W by rewrite -{3}(powr1 W0) -powr_add // subrK.
by rewrite SE powrM ?(ltW m0) // WE -mulrA => h; rewrite ler_wpmul2l ?powr_ge0.
Qed.

(* Schur's test: row and column sums of absolute values bound every l_r norm. *)
Theorem schur_test n (M : 'M[R]_n) C r : 1 <= r -> 0 <= C ->
  (forall i, \sum_j `|M i j| <= C) -> (forall j, \sum_i `|M i j| <= C) ->
  opnorm_le (@normr_ n r) (@normr_ n r) (app M) C.
Proof.
move=> r1 C0 row col; have r0 : 0 < r := lt_le_trans ltr01 r1.
split=> // x; have pow : psum_pow r (app M x) <= powr C r * psum_pow r x.
  apply: (@le_trans _ _ (\sum_i powr C (r - 1) * \sum_j `|M i j| * powr `|x 0 j| r)).
    apply: ler_sum => i _; apply: le_trans (_ : powr (\sum_j `|M i j| * `|x 0 j|) r <= _).
      apply: ler_powr (ltW r0) (normr_ge0 _) _; rewrite appE.
      apply: le_trans (ler_norm_sum _ _ _) _.
      by apply: ler_sum => j _; rewrite normrM.
    apply: le_trans (powr_weighted r1 _ _) _ => // /=.
    have s0 : 0 <= \sum_j `|M i j| * powr `|x 0 j| r.
      by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?powr_ge0.
    by rewrite ler_wpmul2r // ler_powr ?subr_ge0 ?row // sumr_ge0.
  rewrite -mulr_sumr exchange_big /=.
  have CE : powr C r = powr C (r - 1) * C.
    have [->|C_neq0] := eqVneq C 0; first by rewrite !powr0 mul0r.
    have Cp : 0 < C by rewrite lt_def C_neq0.
    by rewrite -{3}(powr1 C0) -powr_add // subrK.
  rewrite CE -mulrA ler_wpmul2l ?powr_ge0 // mulr_sumr; apply: ler_sum => j _.
  by rewrite -mulr_suml ler_wpmul2r ?powr_ge0 ?col.
rewrite /normr_; have ri : 0 <= r^-1 by rewrite invr_ge0 ltW.
apply: le_trans (ler_powr ri (psum_pow_ge0 _ _) pow) _.
by rewrite powrM ?powr_ge0 ?psum_pow_ge0 // powrr // divff ?gt_eqF // powr1.
Qed.

(* The ordering, for all r in [1, infinity) (infinity itself: jac_inf_inf). *)
Theorem jac_ordering n (p : 'rV[R]_n) tau r : simplex p -> 0 < tau -> 1 <= r ->
  opnorm_le (@normr_ n r) (@normr_ n r) (app (softmax_jac p tau)) (theta p / (2%:R * tau)).
Proof.
move=> sp t0 r1; apply: schur_test => //.
- by case: (jac_inf_inf sp t0).
- exact: jac_row_sum_le.
- exact: jac_col_sum_le.
Qed.

(* normr_ 2 is the Euclidean norm, normr_ 1 the l1 norm. *)
Lemma normr_1 n (x : 'rV[R]_n) : normr_ 1 x = norm1 x.
Proof.
rewrite /normr_ invr1 powr1 ?psum_pow_ge0 //.
by apply: eq_bigr => i _; rewrite powr1.
Qed.

Lemma powr2 a : 0 <= a -> powr a 2%:R = a ^+ 2.
Proof.
rewrite le_eqVlt => /predU1P[<-|a0]; first by rewrite powr0 expr0n.
by rewrite -[2%:R]/(1 + 1) powr_add // !powr1 ?ltW // expr2.
Qed.

Lemma normr_2 n (x : 'rV[R]_n) : normr_ 2%:R x = norm2 x.
Proof.
have -> : norm2 x = powr (norm2 x ^+ 2) 2%:R^-1.
  by rewrite -powr2 ?norm2_ge0 // powrr ?norm2_ge0 // divff ?pnatr_eq0 // powr1 ?norm2_ge0.
congr (powr _ _); rewrite norm2_sqr; apply: eq_bigr => i _.
by rewrite powr2 // real_normK ?num_real // expr2.
Qed.

(* For two tokens, equality for every r and every p. *)
Theorem jac_ordering_two (p : 'rV[R]_2) tau : simplex p -> 0 < tau ->
  (forall r, 1 <= r -> is_opnorm (@normr_ 2 r) (@normr_ 2 r) (app (softmax_jac p tau))
    (theta p / (2%:R * tau))) /\
  is_opnorm (@ninf R 2) (@ninf R 2) (app (softmax_jac p tau)) (theta p / (2%:R * tau)).
Proof.
move=> sp t0; have [_ xJ] := two_tokens sp t0; set x := signs R [set (0 : 'I_2)] in xJ.
have x_ninf : ninf x = 1 by apply: ninf_vertex => //; exact: signs_vertex.
have c0 : 0 <= theta p / (2%:R * tau) by case: (jac_inf_inf sp t0).
split=> [r r1|].
  apply: (is_opnorm_attained (x := x) (jac_ordering sp t0 r1)).
    rewrite /normr_; apply: powr_gt0; rewrite lt_def psum_pow_ge0 andbT.
    apply/eqP => /eqP; rewrite psumr_eq0 => [/allP|i _]; last exact: powr_ge0.
    move=> /(_ 0 (mem_index_enum _)) /=; rewrite mxE set11 normr1 gt_eqF //.
    exact: powr_gt0.
  rewrite xJ; move: (theta p / _) c0 => c c0; have rn := lt0r_neq0 (lt_le_trans ltr01 r1).
  have -> : c * normr_ r x = powr (powr c r * psum_pow r x) r^-1.
    by rewrite powrM ?powr_ge0 ?psum_pow_ge0 // powrr // divff // powr1.
  congr (powr _ _).
  rewrite /psum_pow mulr_sumr; apply: eq_bigr => i _.
  by rewrite rvZ normrM (ger0_norm c0) powrM.
apply: (is_opnorm_attained (x := x) (jac_inf_inf sp t0)); rewrite x_ninf ?ltr01 //.
by rewrite xJ ninfZ x_ninf (ger0_norm c0).
Qed.

End Power.

(* Remark B.2: the constant of same-norm bounds, for every r, and where it is attained. *)
Section Constant.
Variable R : realType.

Theorem same_norm_constant n (u : 'rV[R]_n.+1) tau : 0 < tau ->
  (forall r, 1 <= r -> opnorm_le (@normr_ R n.+1 r) (@normr_ R n.+1 r)
    (app (softmax_jac (softmax tau u) tau)) (2%:R * tau)^-1) /\
  opnorm_le (@ninf R n.+1) (@ninf R n.+1) (app (softmax_jac (softmax tau u) tau)) (2%:R * tau)^-1.
Proof.
move=> t0; have sp := softmax_simplex tau u; have c0 : 0 <= (2%:R * tau)^-1.
  by rewrite invr_ge0 mulr_ge0 ?ler0n // ltW.
have le : theta (softmax tau u) / (2%:R * tau) <= (2%:R * tau)^-1.
  by rewrite -[leRHS]mul1r ler_wpmul2r // theta_le1.
have weaken (N : 'rV[R]_n.+1 -> R) f : (forall x, 0 <= N x) ->
    opnorm_le N N f (theta (softmax tau u) / (2%:R * tau)) -> opnorm_le N N f (2%:R * tau)^-1.
  by move=> N0 [_ H]; split=> // x; apply: le_trans (H x) _; rewrite ler_wpmul2r.
split=> [r r1|]; apply: weaken.
- by move=> x; rewrite powr_ge0 // psum_pow_ge0.
- exact: jac_ordering.
- exact: ninf_ge0.
- exact: jac_inf_inf.
Qed.

Theorem same_norm_constant_attained tau (p := softmax tau (0 : 'rV[R]_2)) : 0 < tau ->
  (forall r, 1 <= r -> is_opnorm (@normr_ R 2 r) (@normr_ R 2 r) (app (softmax_jac p tau))
    (2%:R * tau)^-1) /\
  is_opnorm (@ninf R 2) (@ninf R 2) (app (softmax_jac p tau)) (2%:R * tau)^-1.
Proof.
move=> t0; have sp : simplex p := softmax_simplex tau 0.
have half i : p 0 i = 2%:R^-1.
  rewrite mxE !mxE mul0r expR0 (eq_bigr (fun _ => 1)) => [|k _]; last by rewrite mxE mul0r expR0.
  by rewrite sum_const mulr1 mul1r.
have t1 : theta p = 1.
  have [-> _] := two_tokens sp t0; rewrite !half.
  by rewrite -[4%:R]/((2 * 2)%:R) natrM -mulrA (mulrA 2%:R 2%:R^-1) !mulfV ?mul1r ?mulfV ?pnatr_eq0.
by have := jac_ordering_two sp t0; rewrite t1 mul1r.
Qed.

End Constant.
