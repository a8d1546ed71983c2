(* What pre-LN stacks pass back, and that the directions which they keep are a gauge. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base DiffTools Geometry LayerNorm LNLip LNProducts LNDiff.
From AttentionSensitivity Require Import MHA Attention Collected Layers Chain Depth Invariance.
From AttentionSensitivity Require Import LNRank.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* The transposed map M^T of a linear map of states, by its matrix. *)
Definition transposed (R : ringType) m n (M : 'M[R]_(m, n) -> 'M[R]_(m, n)) (g : 'M[R]_(m, n)) :=
  vec_mx (mxvec g *m (lin_mx M)^T).

Lemma inner_mxvec (R : rcfType) m n (X Y : 'M[R]_(m, n)) : inner X Y = dot (mxvec X) (mxvec Y).
Proof.
rewrite /dot (reindex _ (curry_mxvec_bij _ _)) /= /inner pair_bigA /=.
by apply: eq_bigr => -[i j] _ /=; rewrite !mxvecE !mxE.
Qed.

(* It is the adjoint for the inner product of states. *)
Lemma transposed_adjoint (R : rcfType) m n (M : {linear 'M[R]_(m, n) -> 'M[R]_(m, n)}) H g :
  inner (M H) g = inner H (transposed M g).
Proof.
rewrite !inner_mxvec vec_mxK -mul_vec_lin.
by rewrite -[lin_mx M]trmxK -/(app (lin_mx M)^T (mxvec H)) dot_app.
Qed.

(* Keeping the mean and shrinking the rest enlarges no vector. *)
Lemma contracted_square (R : rcfType) d (v : 'rV[R]_d.+1) (s : R) : 0 <= s <= 1 ->
  norm2 (mean v *: ones d.+1 + s *: centre v) <= norm2 v.
Proof.
move=> /andP[s0 s1]; rewrite norm2_leE; have vE := dot_centre v; have oc := dot_1_centre v.
have oo := dot_1_1 R d; move: (centre v) (ones d.+1) (mean v) vE oc oo => c o m vE oc oo.
have c0 := dot_ge0 c; rewrite !(dotDl, dotDr, dotZl, dotZr) (dotC c o) oc oo !mulr0 addr0 add0r.
move: (dot c c) (dot v v) vE c0 => q a qE q0; have -> : a = d.+1%:R * m ^+ 2 + q.
  by rewrite qE addrC subrK.
move: (d.+1%:R) => k; apply: (le_by_diff (c := q * (1 - s) * (1 + s))); first by ring.
by rewrite !mulr_ge0 ?subr_ge0 ?addr_ge0 ?ler01.
Qed.

Section Stack.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Variables (gamma beta : nat -> 'rV[R]_d.+1) (eps : nat -> R) (G : nat -> state -> state).
Local Notation F l n := (run (pre_step (behind_ln gamma beta eps G)) l n).

(* Where the branches are differentiable and sigma > 0, so is the stack. *)
Lemma pre_ln_differentiable l n X :
  (forall k, (k < n)%N -> (forall i, 0 < sigma (eps (l + k)%N) (row i (F l k X))) /\
     differentiable (G (l + k)%N)
       (tokenwise (ln (gamma (l + k)%N) (beta (l + k)%N) (eps (l + k)%N)) (F l k X))) ->
  differentiable (F l n) X.
Proof.
elim: n => [|n IH] reg; first exact: ex_diff.
have [s0 Gd] := reg n (leqnn _); have dn := IH (fun k kn => reg k (ltnW kn)).
have dl : differentiable (tokenwise (ln (gamma (l + n)%N) (beta (l + n)%N) (eps (l + n)%N)))
    (F l n X).
  by case: (ln_state_differential (gamma (l + n)%N) (beta (l + n)%N) s0).
have db := differentiable_comp dn (differentiable_comp dl Gd).
have [sumd _] := is_diff_ext (g := F l n.+1) (fun Y => esym (run_last _ l n Y)) (fun=> erefl)
  (is_diffD (differentiableP dn) (differentiableP db)).
exact: sumd.
Qed.

(* The coordinate sums of a gradient are kept. *)
Theorem pre_ln_gradient l n X g i : differentiable (F l n) X ->
  \sum_j transposed ('d (F l n) X) g i j = \sum_j g i j.
Proof.
move=> Fd; pose D : state := shift d.+1 (delta_mx 0 i).
have inD Y : inner D Y = \sum_j Y i j.
  rewrite /inner (bigD1 i) //= big1 ?addr0 => [|k /negbTE ki].
    by apply: eq_bigr => j _; rewrite !mxE !eqxx mul1r.
  by apply: big1 => j _; rewrite !mxE ki andbF mul0r.
by rewrite -!inD -transposed_adjoint (pre_ln_fixed _ Fd).
Qed.

(* A map that is constant along D kills D. *)
Lemma diff_killed (f : state -> state) (X D : state) : differentiable f X ->
  (forall t : R, f (X + t *: D) = f X) -> 'd f X D = 0.
Proof.
move=> fd fD; pose line (t : R) : state := X + t *: D.
have dline : is_diff (0 : R) line (fun s => s *: D).
  by apply: is_diff_ext (is_diffD (is_diff_cst X (0 : R)) (is_diff_scalel (0 : R) D)) => s;
    rewrite ?add0r.
have line0 : line 0 = X by rewrite /line scale0r addr0.
have d1 : is_diff (0 : R) (f \o line) ('d f (line 0) \o (fun s => s *: D)).
  by apply: is_diff_comp dline _; apply: differentiableP; rewrite line0.
have d2 : is_diff (0 : R) (f \o line) (fun=> 0).
  by apply: is_diff_ext (is_diff_cst (f X) (0 : R)) => // s; rewrite /= fD.
have e := congr1 (fun F : R -> state => F 1) (etrans (esym (@diff_val _ _ _ _ _ _ _ d1))
  (@diff_val _ _ _ _ _ _ _ d2)).
by move: e; rewrite /= line0 scale1r.
Qed.

(* A LayerNorm behind the stack sees nothing of the shifts. *)
Theorem last_ln_kills l n X c (g b : 'rV[R]_d.+1) e
    (N := @tokenwise R L.+1 _ _ (ln g b e)) : differentiable (N \o F l n) X ->
  'd (N \o F l n) X (shift d.+1 c) = 0.
Proof.
move=> Nd; apply: diff_killed => // t.
by rewrite /= -shiftZ pre_ln_shift /N tokenwise_ln_shift.
Qed.

Theorem ln_state_kills (Y : state) c (g b : 'rV[R]_d.+1) e : (forall i, 0 < sigma e (row i Y)) ->
  differentiable (@tokenwise R L.+1 _ _ (ln g b e)) Y /\
  'd (@tokenwise R L.+1 _ _ (ln g b e)) Y (shift d.+1 c) = 0.
Proof.
move=> s0; have [Nd _] := ln_state_differential g b s0; split; first exact: Nd.
apply: diff_killed => // t; rewrite -shiftZ; exact: tokenwise_ln_shift.
Qed.

End Stack.

(* One token: attention returns the token's value, and the norms of states are those of vectors. *)
Lemma mha_one_token (R : realType) H d k n e (WQ WK : 'I_H -> 'M[R]_(d.+1, k))
    (WV : 'I_H -> 'M[R]_(d.+1, n)) (WO : 'I_H -> 'M[R]_(n, e.+1)) tau
    (visible : 'I_1 -> 'I_1 -> bool) U :
  visible ord0 ord0 -> mha WQ WK WV WO tau visible U = \sum_h U *m WV h *m WO h.
Proof.
move=> v0; apply: eq_bigr => h _.
suff -> : attention WQ WK tau visible h U = 1%:M by rewrite mul1mx.
apply/matrixP => i j; rewrite [LHS]mxE [RHS]mxE !ord1 big_ord1 v0 mul1r divff ?eqxx //.
by rewrite gt_eqF // expR_gt0.
Qed.

Lemma frob_one_token (R : rcfType) n (X : 'rV[R]_n) : frob X = norm2 X.
Proof.
by rewrite /frob big_ord1 /norm2; congr Num.sqrt; apply: eq_bigr => j _; rewrite expr2.
Qed.

Lemma ninf2_one_token (R : rcfType) n (X : 'rV[R]_n) : ninf2 X = norm2 X.
Proof.
apply/eqP; rewrite eq_le; apply/andP; split.
  apply: ninf2_le => [|i]; first exact: norm2_ge0.
  by rewrite (ord1 i) (_ : row 0 X = X) //; apply/rowP => j; rewrite mxE.
by rewrite -{1}(_ : row 0 X = X) ?norm2_row_le //; apply/rowP => j; rewrite mxE.
Qed.

(* A map that keeps the mean of a token and shrinks the rest. *)
Lemma keeps_mean_norms (R : rcfType) d (f : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (s : R) : 0 <= s <= 1 ->
  (forall v, f v = mean v *: ones d.+1 + s *: centre v) ->
  [/\ is_opnorm (@frob R 1 d.+1) (@frob R 1 d.+1) f 1,
      is_opnorm (@ninfrms R 1 d.+1) (@ninfrms R 1 d.+1) f 1 &
      forall v : 'rV[R]_d.+1, \sum_j v 0 j = 0 -> f v = s *: v].
Proof.
move=> s01 fE; have o0 : ones d.+1 != 0 :> 'rV[R]_d.+1.
  by apply/eqP => /rowP /(_ ord0); rewrite !mxE => /eqP; rewrite oner_eq0.
have f1 : f (ones d.+1) = ones d.+1.
  rewrite fE [mean _]meanE dot_1_1 divff ?pnatr_eq0 // scale1r.
  by rewrite -{2}[ones d.+1]scale1r centre_const scaler0 addr0.
split.
- apply: (is_opnorm_attained (x := ones d.+1)).
  + split; first exact: ler01.
    by move=> v; rewrite mul1r !frob_one_token fE; exact: contracted_square.
  + by rewrite frob_one_token norm2_gt0.
  + by rewrite f1 mul1r.
- apply/is_opnorm_rms.
  apply: (is_opnorm_attained (x := ones d.+1)).
  + split; first exact: ler01.
    by move=> v; rewrite mul1r !ninf2_one_token fE; exact: contracted_square.
  + by rewrite ninf2_one_token norm2_gt0.
  + by rewrite f1 mul1r.
- by move=> v; rewrite -dot_ones fE => v0; rewrite meanE v0 mul0r scale0r add0r centre_id.
Qed.

(* Attention sublayers that keep the mean and shrink the rest at any rate. *)
Section Vanishing.
Variables (R : realType) (d : nat) (t eps : R).
Hypotheses (t0 : 0 <= t) (t1 : t < 1) (e0 : 0 < eps).
Local Notation state := 'M[R]_(1, d.+1).

Definition shrinking (X : state) : state :=
  X + ((t - 1) * Num.sqrt eps) *: tokenwise (ln (ones d.+1) 0 eps) X.

Lemma shrinking_0 : shrinking 0 = 0.
Proof.
rewrite /shrinking add0r (_ : tokenwise _ _ = 0) ?scaler0 //.
apply/row_matrixP => i; rewrite row_tokenwise !row0 /ln /xhat centre0 scaler0 addr0.
by apply/rowP => j; rewrite !mxE mulr0.
Qed.

Lemma shrinking_differential :
  is_diff (0 : state) shrinking (fun H => mean H *: ones d.+1 + t *: centre H).
Proof.
have s0 i : 0 < sigma eps (row i (0 : state)) by exact: sigma_gt0.
have dl := ln_state_differential (ones d.+1) 0 s0.
apply: is_diff_ext (is_diffD (is_diff_id _) (is_diffZ ((t - 1) * Num.sqrt eps) dl)) => // H.
have q0 : Num.sqrt eps != 0 by rewrite gt_eqF // sqrtr_gt0.
pose J := rowwise (fun i => ln_jac (ones d.+1) eps (row i (0 : state))).
have JE : J H = (Num.sqrt eps)^-1 *: centre H.
  apply/row_matrixP => i; rewrite row_rowwise row0 -(scale0r (ones d.+1)) ln_jac_const.
  rewrite app_scalel app_mul app_hadamard app_projector (ord1 i) linearZ /=; congr (_ *: _).
  by rewrite (_ : row 0 H = H); apply/rowP => j; rewrite !mxE ?mul1r.
have alg (V : lmodType R) (m c : V) (q : R) : q != 0 ->
    m + c + ((t - 1) * q) *: (q^-1 *: c) = m + t *: c.
  move=> hq; rewrite scalerA -mulrA divff // mulr1 scalerBl scale1r -addrA; congr (_ + _).
  by rewrite addrC subrK.
transitivity ((H : 'rV[R]_d.+1) + ((t - 1) * Num.sqrt eps) *: (J H : 'rV[R]_d.+1)); first by [].
have HE : H = mean H *: ones d.+1 + centre H by rewrite addrC subrK.
by rewrite JE {1}HE; exact: alg.
Qed.

Lemma shrinking_stack l n :
  is_diff (0 : state) (run (fun _ => shrinking) l n)
    (fun H => mean H *: ones d.+1 + t ^+ n *: centre H).
Proof.
elim: n l => [|n IH] l.
  apply: is_diff_ext (is_diff_id _) => // H.
  by rewrite expr0 scale1r addrC subrK.
have at0 (Y : state) : Y = 0 -> is_diff Y (run (fun _ => shrinking) l.+1 n)
    (fun H => mean H *: ones d.+1 + t ^+ n *: centre H) by move=> ->.
apply: is_diff_ext (is_diff_comp shrinking_differential (at0 _ shrinking_0)) => // H /=.
have m1 : mean (mean H *: ones d.+1 + t *: centre H) = mean H.
  rewrite meanD !meanZ [mean (ones _)]meanE [mean (centre _)]meanE dot_1_1 dot_1_centre.
  by rewrite mul0r mulr0 addr0 divff ?mulr1 // pnatr_eq0.
have c1 : centre (mean H *: ones d.+1 + t *: centre H) = t *: centre H.
  by rewrite centreD centre_const add0r centreZ centre_id ?dot_1_centre.
by rewrite m1 c1 scalerA -exprSr.
Qed.

Theorem shrinking_norms l n (M := 'd (run (fun _ => shrinking) l n) (0 : state)) :
  [/\ differentiable (run (fun _ => shrinking) l n) (0 : state),
      is_opnorm (@frob R 1 d.+1) (@frob R 1 d.+1) M 1,
      is_opnorm (@ninfrms R 1 d.+1) (@ninfrms R 1 d.+1) M 1 &
      forall H : state, \sum_j H 0 j = 0 -> M H = t ^+ n *: H].
Proof.
have hs := shrinking_stack l n; have [dif _] := hs.
have ME H : M H = mean H *: ones d.+1 + t ^+ n *: centre H.
  exact: (congr1 (fun f : state -> state => f H) (@diff_val _ _ _ _ _ _ _ hs)).
have tn : 0 <= t ^+ n <= 1 by rewrite exprn_ge0 // exprn_ile1 // ltW.
by have [h1 h2 h3] := keeps_mean_norms tn ME.
Qed.

(* They are attention sublayers of one head. *)
Lemma shrinking_attention (WQ WK : 'I_1 -> 'M[R]_d.+1) tau (visible : 'I_1 -> 'I_1 -> bool)
    (X : state) :
  visible ord0 ord0 ->
  shrinking X = X + mha WQ WK (fun _ => ((t - 1) * Num.sqrt eps)%:M) (fun _ => 1%:M) tau visible
    (tokenwise (ln (ones d.+1) 0 eps) X).
Proof. by move=> v0; rewrite mha_one_token // big_ord1 mulmx1 mul_mx_scalar. Qed.

End Vanishing.

Lemma half_norms (R : rcfType) L d (f : 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1))
    (D := shift d.+1 (const_mx 1)) : (forall X, f X = 2%:R^-1 *: X) ->
  [/\ is_opnorm (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) f 2%:R^-1,
      is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) f 2%:R^-1 & f D <> D].
Proof.
move=> fE; have D0 : D != 0 by apply/eqP => /shift0 /rowP /(_ ord0) /eqP; rewrite !mxE oner_eq0.
have h0 : 0 <= 2%:R^-1 :> R by rewrite invr_ge0 ler0n.
have attained (N : 'M[R]_(L.+1, d.+1) -> R) : (forall a X, N (a *: X) = `|a| * N X) -> 0 < N D ->
    is_opnorm N N f 2%:R^-1.
  move=> NZ ND; apply: (is_opnorm_attained (x := D)); rewrite ?fE ?NZ ?ger0_norm //.
  by split=> // X; rewrite fE NZ ger0_norm.
have nD : 0 < ninf2 D by rewrite lt_def ninf2_ge0 andbT; apply: contraNneq D0 => /ninf2_eq0 ->.
split.
- apply: attained => [a X|]; last exact: lt_le_trans nD (ninf2_le_frob _).
  rewrite /frob -sqrtr_sqr -sqrtrM ?sqr_ge0 //; congr Num.sqrt; rewrite mulr_sumr.
  by apply: eq_bigr => i _; rewrite mulr_sumr; apply: eq_bigr => j _; rewrite mxE exprMn.
- by apply/is_opnorm_rms; apply: attained => // a X; exact: ninf2Z.
- rewrite fE => /eqP; rewrite -subr_eq0 -{2}[D]scale1r -scalerBl scaler_eq0 (negbTE D0) orbF.
  by rewrite subr_eq0 invr_eq1 pnatr_eq1.
Qed.

(* With RMSNorm nothing of this holds: a sublayer that halves every direction. *)
Section RMS.
Variables (R : realType) (L d : nat) (eps : R).
Hypothesis e0 : 0 < eps.
Local Notation state := 'M[R]_(L.+1, d.+1).

Definition halving (X : state) : state :=
  X + (- (Num.sqrt eps / 2%:R)) *: tokenwise (rmsnorm (ones d.+1) eps) X.

Lemma halving_differential : is_diff (0 : state) halving (fun H => 2%:R^-1 *: H).
Proof.
have dr : is_diff (0 : state) (fun Y : state => tokenwise (rmsnorm (ones d.+1) eps) Y)
    (rowwise (fun i => rms_jac (ones d.+1) eps (row i (0 : state)))).
  by apply: tokenwise_differential => i; apply/rms_differential/rms_sigma_gt0.
apply: is_diff_ext (is_diffD (is_diff_id _) (is_diffZ (- (Num.sqrt eps / 2%:R)) dr)) => // H.
have q0 : Num.sqrt eps != 0 by rewrite gt_eqF // sqrtr_gt0.
pose J := rowwise (fun i => rms_jac (ones d.+1) eps (row i (0 : state))).
have JE : J H = (Num.sqrt eps)^-1 *: H.
  apply/row_matrixP => i; rewrite row_rowwise row0 app_rms_jac.
  have -> : rms_hat eps 0 = 0 :> 'rV[R]_d.+1 by rewrite /rms_hat scaler0.
  rewrite scaler0 subr0 [RHS]linearZ /= /rms_sigma dot0l mul0r add0r; congr (_ *: _).
  by apply/rowP => j; rewrite !mxE mul1r.
have alg (V : lmodType R) (v : V) (q : R) : q != 0 ->
    v + (- (q / 2%:R)) *: (q^-1 *: v) = 2%:R^-1 *: v.
  move=> hq; rewrite scalerA mulNr mulrAC divff // mul1r -{1}[v]scale1r -scalerDl; congr (_ *: _).
  by field.
transitivity ((H : 'M[R]_(L.+1, d.+1)) +
  (- (Num.sqrt eps / 2%:R)) *: (J H : 'M[R]_(L.+1, d.+1))); first by [].
by rewrite JE; exact: alg.
Qed.

Theorem halving_norms (M := 'd halving (0 : state)) :
  [/\ differentiable halving (0 : state),
      is_opnorm (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) M 2%:R^-1,
      is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) M 2%:R^-1 &
      ~ forall X c, halving (X + shift d.+1 c) = halving X + shift d.+1 c].
Proof.
have hs := halving_differential; have [dif _] := hs.
have ME H : M H = 2%:R^-1 *: H.
  exact: (congr1 (fun f : state -> state => f H) (@diff_val _ _ _ _ _ _ _ hs)).
have [h1 h2 h3] := half_norms ME; split=> // all; apply: h3.
by apply: diff_fixed => // s; rewrite -shiftZ all.
Qed.

End RMS.

(* The adjoint and its coordinate sums together. *)
Theorem pre_gradient_whole (R : realType) L d (gamma beta : nat -> 'rV[R]_d.+1)
    (eps : nat -> R) (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n
    (LN := fun k => tokenwise (ln (gamma k) (beta k) (eps k)))
    (S := run (pre_step (behind_ln gamma beta eps G)) l)
    (back := fun X g => transposed ('d (S n) X) g) :
  (forall X, (forall k, (k < n)%N -> (forall i, 0 < sigma (eps (l + k)%N) (row i (S k X))) /\
     differentiable (G (l + k)%N) (LN (l + k)%N (S k X))) -> differentiable (S n) X) /\
  (forall X, differentiable (S n) X ->
     (forall H g, inner ('d (S n) X H) g = inner H (back X g)) /\
     forall g i, \sum_j back X g i j = \sum_j g i j /\
       (\sum_j back X g i j) / d.+1%:R = (\sum_j g i j) / d.+1%:R).
Proof.
split; first by move=> X; exact: pre_ln_differentiable.
move=> X Fd; split=> [H g|g i]; first exact: transposed_adjoint.
by have e := pre_ln_gradient g i Fd; split; [exact: e | congr (_ / _)].
Qed.

Theorem vanishing_attention (R : realType) d (t eps : R) n : 0 <= t -> t < 1 -> 0 < eps ->
  exists (WQ WK WV WO : 'M[R]_d.+2) (gamma beta : 'rV[R]_d.+2) (X : 'M[R]_(1, d.+2)),
  let F := run (fun _ (Y : 'M[R]_(1, d.+2)) =>
    Y + mha (fun _ : 'I_1 => WQ) (fun _ => WK) (fun _ => WV) (fun _ => WO) 1
          (fun _ _ : 'I_1 => true) (tokenwise (ln gamma beta eps) Y)) 0 n in
  [/\ differentiable F X,
      is_opnorm (@frob R 1 d.+2) (@frob R 1 d.+2) ('d F X) 1,
      is_opnorm (@ninfrms R 1 d.+2) (@ninfrms R 1 d.+2) ('d F X) 1 &
      forall H : 'M[R]_(1, d.+2), \sum_j H 0 j = 0 -> 'd F X H = t ^+ n *: H].
Proof.
move=> t0 t1 e0; exists 0, 0, ((t - 1) * Num.sqrt eps)%:M, 1%:M, (ones d.+2), 0, 0.
have step : (fun _ : nat => shrinking t eps) = (fun _ (Y : 'M[R]_(1, d.+2)) =>
    Y + mha (fun _ : 'I_1 => 0 : 'M[R]_d.+2) (fun _ => 0 : 'M[R]_d.+2)
      (fun _ => ((t - 1) * Num.sqrt eps)%:M) (fun _ => 1%:M) 1
      (fun _ _ : 'I_1 => true) (tokenwise (ln (ones d.+2) 0 eps) Y)).
  by apply/funext => k; apply/funext => Y; exact: shrinking_attention.
by rewrite -step; exact: shrinking_norms.
Qed.

Theorem rms_halves (R : realType) L d : exists (gamma : 'rV[R]_d.+1) (eps : R)
  (G : 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) (X : 'M[R]_(L.+1, d.+1)),
  let F := fun Y : 'M[R]_(L.+1, d.+1) => Y + G (tokenwise (rmsnorm gamma eps) Y) in
  0 < eps /\ differentiable F X /\
  (exists2 c, c < 1 & is_opnorm (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) ('d F X) c /\
     is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d F X) c) /\
  ~ forall Y c, F (Y + shift d.+1 c) = F Y + shift d.+1 c.
Proof.
exists (ones d.+1), 1, (fun Y => (- (Num.sqrt 1 / 2%:R)) *: Y), 0.
have [h1 h2 h3 h4] := @halving_norms R L d 1 ltr01; move=> F.
split; first exact: ltr01.
split; first exact: h1.
split; last exact: h4.
by exists 2%:R^-1; [rewrite invf_lt1 ?ltr1n ?ltr0n | split; [exact: h2 | exact: h3]].
Qed.
