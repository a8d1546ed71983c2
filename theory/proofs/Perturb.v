(* Total variation under a change of the logits: Remark B.1, and exactly for finite changes. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import ring.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype derive sequences exp landau.
From AttentionSensitivity Require Import Base Theta Tilt DiffTools Softmax MeanValue.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Finite.
Variables (R : realType) (L : nat).
Let n := L.+1.
Implicit Types (u delta : 'rV[R]_n) (tau eps : R).

(* Changing the logits by delta tilts the row by exp(delta_i/tau). *)
Lemma softmax_tilt tau u delta : softmax tau (u + delta) =
  tilt (softmax tau u) (\row_i expR (delta 0 i / tau)).
Proof.
apply/rowP => i; rewrite !mxE.
set Z := \sum_k expR (u 0 k / tau).
have Z0 : 0 < Z.
  by rewrite /Z (bigD1 ord0) //= ltr_paddr ?expR_gt0 // sumr_ge0 // => k _; rewrite ltW ?expR_gt0.
have -> : dot (softmax tau u) (\row_i expR (delta 0 i / tau)) =
    (\sum_k expR ((u + delta) 0 k / tau)) / Z.
  rewrite mulr_suml; apply: eq_bigr => k _; rewrite !mxE mulrDl expRD -/Z.
  by rewrite mulrAC.
have S0 : 0 < \sum_k expR ((u + delta) 0 k / tau).
  by rewrite (bigD1 ord0) //= ltr_paddr ?expR_gt0 // sumr_ge0 // => k _; rewrite ltW ?expR_gt0.
rewrite mulrDl expRD -/Z.
have e (a b S W : R) : S != 0 -> W != 0 -> a * b / S = a / W * b / (S / W).
  by move=> S_neq0 W_neq0; field; rewrite S_neq0 W_neq0.
by apply: e; rewrite gt_eqF.
Qed.

(* The largest total variation that changes of the logits by at most eps can cause. *)
Theorem finite_perturbation tau u eps : 0 < tau -> 0 <= eps ->
  let p := softmax tau u in let r := expR (2%:R * eps / tau) in
  is_max (fun delta => ninf delta <= eps) (fun delta => tv (softmax tau (u + delta)) p)
    (\big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S)) /\
  forall S, gain r (mass p S) = \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S) ->
    tv (softmax tau (u + eps *: signs R S)) p =
    \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S).
Proof.
move=> t0 e0 p r; pose k := expR (eps / tau); have sp : simplex p := softmax_simplex tau u.
have k1 : 1 <= k by rewrite -expR0 ler_expR divr_ge0 // ltW.
have rE : r = k ^+ 2 by rewrite /r /k -mulrA expRMm.
have r1 : 1 <= r by rewrite rE; exact: k2_ge1.
have upper delta : ninf delta <= eps ->
    tv (softmax tau (u + delta)) p <= \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S).
  move=> de; rewrite softmax_tilt; set w := (\row_i expR (delta 0 i / tau)).
  have wk i : k^-1 <= w 0 i <= k.
    have := le_trans (ninf_ge delta i) de; rewrite ler_norml => /andP[lo hi].
    rewrite mxE -expRN !ler_expR -mulNr.
    by rewrite !ler_wpmul2r // ?invr_ge0 ltW.
  have [S ->] := tv_excess sp (tilt_simplex sp k1 wk); rewrite rE.
  apply: le_trans (tilt_excess_le sp k1 wk S) _; rewrite -rE.
  exact: (bigmax0_ge (fun S => gain r (mass p S))).
have lower (S : {set 'I_n}) : gain r (mass p S) <= tv (softmax tau (u + eps *: signs R S)) p.
  have dE : \row_i expR ((eps *: signs R S) 0 i / tau) =
      \row_i (if i \in S then k else k^-1) :> 'rV[R]_n.
    apply/rowP => i; rewrite !mxE; case: ifP => _; first by rewrite mulr1.
    by rewrite mulrN1 mulNr expRN.
  rewrite softmax_tilt dE -/p; set w := (\row_i _).
  have wk i : k^-1 <= w 0 i <= k.
    have kk : k^-1 <= k by rewrite (le_trans _ k1) // invf_le1 ?(lt_le_trans ltr01 k1).
    by rewrite mxE; case: ifP => _; rewrite ?lexx ?kk.
  rewrite rE -(tilt_signs S sp k1); exact: tv_ge sp (tilt_simplex sp k1 wk).
have sign_le (S : {set 'I_n}) : ninf (eps *: signs R S) <= eps.
  rewrite ninfZ ger0_norm // -[leRHS]mulr1 ler_wpmul2l //.
  exact: vertex_cube (@signs_vertex R n S).
have at_max S : gain r (mass p S) = \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S) ->
    tv (softmax tau (u + eps *: signs R S)) p =
    \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S).
  by move=> SE; apply/eqP; rewrite eq_le upper //= -SE lower.
split=> //; split=> [|delta]; last exact: upper.
have [S SE] : exists S : {set 'I_n}, gain r (mass p S) =
    \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S).
  apply: (bigmax0_attained (F := fun S : {set 'I_n} => gain r (mass p S)) (i0 := finset.set0)).
  by rewrite mass0 /gain !mul0r.
by exists (eps *: signs R S); [exact: sign_le | exact: at_max].
Qed.

Definition tanh (x : R) : R := (expR x - expR (- x)) / (expR x + expR (- x)).

Lemma tanh_half x : tanh (x / 2%:R) = (expR x - 1) / (expR x + 1).
Proof.
have xE : expR x = expR (x / 2%:R) ^+ 2 by rewrite -expRMm mulrC divfK ?pnatr_eq0.
have h0 : 0 < expR (x / 2%:R) := expR_gt0 _.
rewrite /tanh xE expRN; move: (expR (x / 2%:R)) h0 => h h0.
have hn : h != 0 by rewrite gt_eqF.
have pn : h ^+ 2 + 1 != 0 by rewrite gt_eqF // ltr_paddr ?exprn_gt0 // ler01.
have -> : h - h^-1 = (h ^+ 2 - 1) / h by field.
have -> : h + h^-1 = (h ^+ 2 + 1) / h by field.
by field; rewrite pn hn.
Qed.

(* Its supremum over all rows. *)
Theorem finite_perturbation_supremum tau u eps : 0 < tau -> 0 <= eps ->
  let p := softmax tau u in let r := expR (2%:R * eps / tau) in
  let m := (1 + expR (eps / tau))^-1 in
  let best := \big[Num.max/0]_(S : {set 'I_n}) gain r (mass p S) in
  best <= tanh (eps / tau / 2%:R) /\
  (best = tanh (eps / tau / 2%:R) <-> (exists S, mass p S = m) \/ eps = 0).
Proof.
move=> t0 e0 p r m best; set k := expR (eps / tau) in m *.
have sp : simplex p := softmax_simplex tau u.
have k1 : 1 <= k by rewrite -expR0 ler_expR divr_ge0 // ltW.
have rE : r = k ^+ 2 by rewrite /r /k -mulrA expRMm.
have k_eq1 : k = 1 <-> eps = 0.
  split=> [k1E|eps0]; last by rewrite /k eps0 mul0r expR0.
  have /expR_inj/eqP : expR (eps / tau) = expR 0 by rewrite expR0.
  by rewrite mulf_eq0 invr_eq0 (gt_eqF t0) orbF => /eqP.
have tE : tanh (eps / tau / 2%:R) = (k - 1) / (k + 1) by rewrite tanh_half.
have each (S : {set 'I_n}) := gain_le k1 (mass_ge0 S sp) (mass_le1 S sp).
rewrite tE; have t_ge0 : 0 <= (k - 1) / (k + 1).
  by rewrite divr_ge0 ?subr_ge0 // addr_ge0 ?ler01 ?(le_trans ler01 k1).
have le : best <= (k - 1) / (k + 1).
  by apply: bigmax0_le => // S; rewrite rE; case: (each S).
split=> //; split=> [eq|H].
  have [S SE] : exists S : {set 'I_n}, gain r (mass p S) = best.
    apply: (bigmax0_attained (F := fun S : {set 'I_n} => gain r (mass p S)) (i0 := finset.set0)).
    by rewrite mass0 /gain !mul0r.
  have [_ [h _]] := each S; rewrite -rE SE eq in h; case: (h erefl) => [mE|kE].
    by left; exists S.
  by right; apply/k_eq1.
apply/eqP; rewrite eq_le le /=; case: H => [[S mE]|eps0].
  have [_ [_ h]] := each S; rewrite -h ?mE; last by left.
  by rewrite -mE -rE; exact: (bigmax0_ge (fun S => gain r (mass p S))).
have kE : k = 1 by apply/k_eq1.
by rewrite kE subrr mul0r; exact: bigmax0_ge0.
Qed.

End Finite.

(* Remark B.1: TV(softmax((u + e x)/tau), softmax(u/tau)) = (|e|/2) |J x|_1 + o(e). *)
Section FirstOrder.
Variables (R : realType) (L : nat).
Let n := L.+1.

Theorem tv_first_order tau (u x : 'rV[R]_n) : 0 < tau ->
  forall eta : R, 0 < eta -> exists2 rad : R, 0 < rad & forall e : R, `|e| < rad ->
    `|tv (softmax tau (u + e *: x)) (softmax tau u)
      - `|e| / 2%:R * norm1 (app (softmax_jac (softmax tau u) tau) x)| <= eta * `|e|.
Proof.
move=> t0 eta eta0; set J := softmax_jac _ _.
have n0 : 0 < n%:R :> R by rewrite ltr0n.
pose P i : set R := fun e =>
  `|softmax tau (u + e *: x) 0 i - softmax tau u 0 i - e * app J x 0 i| <=
  2%:R * eta / n%:R * `|e|.
have coord i : nbhs (0 : R) (P i).
  pose phi (e : R) := softmax tau (u + e *: x) 0 i.
  have line := is_diffD (is_diff_cst u (0 : R^o)) (is_diff_scalel (0 : R) x).
  have u0 : (cst u + *:%R^~ x) (0 : R) = u by rewrite -[LHS]/(u + 0 *: x) scale0r addr0.
  have hs := is_diff_comp line (softmax_differential tau ((cst u + *:%R^~ x) (0 : R))).
  have [hd dE] : is_diff (0 : R^o) phi (fun e : R => e * app J x 0 i : R^o).
    apply: is_diff_ext (is_diff_diffm hs 0 i) => // e.
    by rewrite u0 -[RHS]rvZ -appZ /=; congr (app _ _ _ _); rewrite -[LHS]/(0 + e *: x) add0r.
  have := diff_locally hd; move=> /eqaddoP /(_ (2%:R * eta / n%:R)).
  have c0 : 0 < 2%:R * eta / n%:R by rewrite divr_gt0 // mulr_gt0 ?ltr0n.
  move=> /(_ c0); apply: filter_app; near=> e.
  rewrite /= -[(_ + _ : R -> R) e]/(_ + _) -[(- _ : R -> R) e]/(- _) /= dE.
  by rewrite /phi /cst addr0 scale0r addr0 opprD addrA.
have all : nbhs (0 : R) (fun e => forall i, P i e).
  exact: (@filter_forall R [finType of 'I_n] P (nbhs (0 : R)) _ coord).
have [rad /= rad0 hrad] := (iffLR (nbhs_ballP _ _) all).
exists rad => // e e_rad; have he : forall i,
    `|softmax tau (u + e *: x) 0 i - softmax tau u 0 i - e * app J x 0 i| <=
    2%:R * eta / n%:R * `|e|.
  by apply: hrad; rewrite /ball /= sub0r normrN.
set f := softmax tau _ in he *; set g := softmax tau u in he *; set v := app J x in he *.
have tri (a b : 'rV[R]_n) : `|norm1 a - norm1 b| <= norm1 (a - b).
  have nN (y : 'rV[R]_n) : norm1 (- y) = norm1 y by rewrite -scaleN1r norm1Z normrN1 mul1r.
  have h1 := norm1D (a - b) b; have h2 := norm1D (b - a) a.
  rewrite !subrK in h1 h2; rewrite -(nN (b - a)) opprB in h2.
  rewrite ler_norml; apply/andP; split; last by rewrite ler_subl_addr.
  by rewrite ler_oppl opprB ler_subl_addr.
have -> : tv f g - `|e| / 2%:R * norm1 v = (norm1 (f - g) - norm1 (e *: v)) / 2%:R.
  by rewrite /tv norm1Z mulrBl mulrAC.
rewrite normrM [`|2%:R^-1|]ger0_norm ?invr_ge0 ?ler0n // ler_pdivr_mulr ?ltr0n //.
apply: le_trans (tri _ _) _; apply: le_trans (_ : \sum_(i < n) 2%:R * eta / n%:R * `|e| <= _).
  by apply: ler_sum => i _; rewrite !rvB rvZ.
rewrite sum_const; have nn : n%:R != 0 :> R by rewrite gt_eqF.
have eq (N h z : R) : N != 0 -> N * (2%:R * h / N * z) = h * z * 2%:R by move=> hN; field.
by rewrite eq.
Unshelve. all: by end_near. Qed.

End FirstOrder.

(* Every length from two tokens on has logits whose row attains the supremum. *)
Theorem finite_perturbation_attained (R : realType) L (tau eps : R) : 0 < tau -> 0 <= eps ->
  exists u : 'rV[R]_L.+2,
    \big[Num.max/0]_(S : {set 'I_L.+2})
      gain (expR (2%:R * eps / tau)) (mass (softmax tau u) S) = tanh (eps / tau / 2%:R).
Proof.
move=> t0 e0; pose u : 'rV[R]_L.+2 := \row_i (if i == ord0 then 0 else eps - tau * ln L.+1%:R).
exists u; have [_ [_ H]] := finite_perturbation_supremum u t0 e0; apply: H; left.
exists (finset.set1 ord0); rewrite mass1 mxE.
have tn : tau != 0 by rewrite gt_eqF.
have other k : k != ord0 -> expR (u 0 k / tau) = expR (eps / tau) / L.+1%:R.
  move=> k0; rewrite mxE (negbTE k0) mulrBl (mulrC tau) mulfK // expRB lnK //.
  by rewrite posrE ltr0n.
have first : expR (u 0 ord0 / tau) = 1 by rewrite mxE eqxx mul0r expR0.
rewrite first (bigD1 ord0) //= first (eq_bigr _ other) sumr_const.
rewrite (_ : #|_| = L.+1); last first.
  by rewrite (eq_card (B := predC1 ord0)) ?cardC1 ?card_ord.
rewrite -[X in 1 / (1 + X)]mulr_natr divfK ?pnatr_eq0 //.
by rewrite mul1r.
Qed.
